package client

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qosproxy/qosproxy/api/qosproxy"
)

// relay forwards connections to an address until it is muted. Connections that are open
// then stay open, but nothing comes through, as if a machine had vanished. Later
// connections are forwarded.
type relay struct {
	to    string
	muted atomic.Pointer[atomic.Bool] // for the current connections
}

func (r *relay) serve(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r.muted.Store(&atomic.Bool{})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			t.Cleanup(func() { _, _ = in.Close(), out.Close() })
			muted := r.muted.Load()
			go pass(out, in, muted)
			go pass(in, out, muted)
		}
	}()
	return l.Addr().String()
}

// mute silences the current connections.
func (r *relay) mute() { r.muted.Swap(&atomic.Bool{}).Store(true) }

func pass(to io.Writer, from io.Reader, muted *atomic.Bool) {
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !muted.Load() {
			_, _ = to.Write(buffer[:n])
		}
	}
}

// TestAProxyThatIsGoneWithoutAWordIsNoticed checks that pings end a connection that
// only looks alive, and that the call is retried on another.
func TestAProxyThatIsGoneWithoutAWordIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		keepalive time.Duration
		want      codes.Code
	}{
		"pinged":                 {10 * time.Second, codes.OK},
		"control: without pings": {-1, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{}
			r := &relay{to: s.serve(t, "")}
			client := dial(t, r.serve(t), qosproxy.Options{Keepalive: c.keepalive})
			one := qosproxy.Lookup{Table: "a.b", Keys: qosproxy.Keys("k")}
			_, err := client.Get(t.Context(), one)
			require.NoError(t, err)
			r.mute()
			// Twice the interval of pings and their timeout.
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err = client.Get(ctx, one)
			assert.Equal(t, c.want, status.Code(err), "%v", err)
		})
	}
}
