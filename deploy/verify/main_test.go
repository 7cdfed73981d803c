package verify

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy is the binary of this tree, built once for all tests.
var proxy string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "qosproxy-verify")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	proxy = filepath.Join(folder, "qosproxy")
	build := exec.Command("go", "build", "-o", proxy, "./cmd/qosproxy")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/qosproxy: %s\n%s", err, out)
		return 1
	}
	return m.Run()
}

// checkConfig has the proxy itself check a configuration, as it would read it with
// those variables.
func checkConfig(t *testing.T, configuration string, env ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "qosproxy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configuration), 0o600))
	check := exec.CommandContext(t.Context(), proxy, "config", "check", file)
	check.Env = append(os.Environ(), env...)
	out, err := check.CombinedOutput()
	return string(out), err
}
