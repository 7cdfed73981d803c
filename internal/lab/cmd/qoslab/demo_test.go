package main

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADemoWhosePortIsTakenEndsBeforeItBootsACluster(t *testing.T) {
	for what, address := range map[string]string{"gRPC": "127.0.0.1:50051", "HTTP": "127.0.0.1:8080", "metrics": "127.0.0.1:8081"} {
		t.Run(what, func(t *testing.T) {
			ours := true
			listener, err := net.Listen("tcp4", address)
			if errors.Is(err, syscall.EADDRINUSE) { // by another program, which is as good
				ours = false
			} else {
				require.NoError(t, err)
				defer listener.Close()
			}
			// A demo that comes as far as the cluster ends there, with another error.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			root := newRoot()
			root.SetArgs([]string{"demo", "--once"})
			err = root.ExecuteContext(ctx)
			require.ErrorContains(t, err, "the demo cannot listen for "+what+": port "+address+" is taken by ")
			require.ErrorContains(t, err, "; stop it")
			if ours && runtime.GOOS == "linux" {
				assert.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
			}
		})
	}
}
