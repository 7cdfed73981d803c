package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
)

func TestGetBringsItsToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("# mine\n0123456789abcdef\nfedcba9876543210\n"), 0o600))
	ctx, err := (&getFlags{token: file}).authorize(t.Context())
	require.NoError(t, err)
	sent, _ := metadata.FromOutgoingContext(ctx)
	assert.Equal(t, []string{"Bearer 0123456789abcdef"}, sent.Get("authorization"))

	ctx, err = (&getFlags{}).authorize(t.Context())
	require.NoError(t, err)
	_, has := metadata.FromOutgoingContext(ctx)
	assert.False(t, has)

	_, err = execute(t, "get", "a.b", "c", "--token-file", file+".none")
	require.ErrorContains(t, err, "--token-file")
	var usage *usageError
	assert.ErrorAs(t, err, &usage)
}
