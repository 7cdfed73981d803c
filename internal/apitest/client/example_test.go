package client

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExamples runs the client's examples in its own module, so with the oldest gRPC
// and protobuf that the client accepts.
func TestExamples(t *testing.T) {
	if testing.Short() && os.Getenv("QOSPROXY_CLIENT_TOOLS") == "" {
		t.Skip("builds a program")
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^Example", ".")
	run.Dir = "../../../api/qosproxy"
	run.Env = append(os.Environ(), "QOSPROXY_EXAMPLES_ADDRESS="+address)
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 4, strings.Count(string(out), "--- PASS: Example"), "%s", out)
}
