package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/command"
)

// listening is a proxy that records the tokens that it receives.
type listening struct {
	scripted
	tokens []string
}

func (l *listening) ListTables(ctx context.Context, in *qosproxyv1.ListTablesRequest) (*qosproxyv1.ListTablesResponse, error) {
	l.tokens = metadata.ValueFromIncomingContext(ctx, "authorization")
	return l.scripted.ListTables(ctx, in)
}

func TestGetBringsItsToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("# mine\n0123456789abcdef\nfedcba9876543210\n"), 0o600))
	l := &listening{scripted: scripted{resp: explained()}}
	addr := serveScripted(t, l)
	_, err := execute(t, "get", "k.t", "a", "b", "--addr", addr, "--token-file", file)
	require.ErrorContains(t, err, "1 of 2 keys")
	assert.Equal(t, []string{"Bearer 0123456789abcdef"}, l.tokens)

	_, err = execute(t, "get", "k.t", "a", "b", "--addr", addr)
	require.ErrorContains(t, err, "1 of 2 keys")
	assert.Empty(t, l.tokens)

	_, err = execute(t, "get", "a.b", "c", "--token-file", file+".none")
	require.ErrorContains(t, err, "--token-file")
	var usage *command.UsageError
	assert.ErrorAs(t, err, &usage)
}
