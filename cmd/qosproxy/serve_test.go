package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asCommand is a variable that makes the test binary behave as qosproxy.
const asCommand = "QOSPROXY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		// The proxy refuses variables that are not its settings.
		_ = os.Unsetenv(asCommand)
		main()
	}
	os.Exit(m.Run())
}

// served is a running process of the command serve, without a cluster to read from.
type served struct {
	cmd   *exec.Cmd
	admin string
	log   *bufio.Scanner
}

// startServe runs serve with that shutdown.delay, and waits until it listens. The configuration is
// in a file, or comes from a pipe of that name.
func startServe(t *testing.T, delay string, pipe ...string) *served {
	t.Helper()
	text := `
cassandra: {contact_points: ["127.0.0.1:1"]}
listen: {grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"}
shutdown: {delay: ` + delay + `}
tables: [{name: shop.products}]
`
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for _, file = range pipe {
	}
	s := &served{cmd: exec.Command(os.Args[0], "serve", "--config", file)}
	s.cmd.Stdin = strings.NewReader(text)
	s.cmd.Env = append(os.Environ(), asCommand+"=1")
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	s.log = bufio.NewScanner(stderr)
	for s.admin == "" && s.log.Scan() {
		if line := s.log.Text(); strings.Contains(line, `"listener":"admin"`) {
			_, rest, _ := strings.Cut(line, `"address":"`)
			address, _, _ := strings.Cut(rest, `"`)
			s.admin = "http://" + address
		}
	}
	require.NotEmpty(t, s.admin, "serve says where it listens")
	return s
}

// wait reads the log to its end and returns how the process ended. If it does not end
// by itself, it is killed.
func (s *served) wait() (log string, err error) {
	defer time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() }).Stop()
	var b strings.Builder
	for s.log.Scan() {
		b.WriteString(s.log.Text() + "\n")
	}
	return b.String(), s.cmd.Wait()
}

func (s *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get(s.admin + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestServeDrainsOnSIGTERM(t *testing.T) {
	const delay = 3 * time.Second
	s := startServe(t, delay.String())
	code, why := s.get(t, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.NotEmpty(t, why, "not ready, and says why")

	start := time.Now()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { _, why := s.get(t, "/readyz"); return strings.Contains(why, "draining") },
		delay*9/10, 5*time.Millisecond, "not ready while balancers notice")
	code, _ = s.get(t, "/livez")
	assert.Equal(t, http.StatusOK, code, "but alive")
	log, err := s.wait()
	require.NoError(t, err, "exit 0")
	assert.GreaterOrEqual(t, time.Since(start), delay, "shutdown.delay is waited for")
	assert.Contains(t, log, `"msg":"stopped"`)
}

func TestASecondSignalEndsServeAtOnce(t *testing.T) {
	s := startServe(t, "1h")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { _, why := s.get(t, "/readyz"); return strings.Contains(why, "draining") },
		5*time.Second, 5*time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	_, err := s.wait()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	status, ok := ended.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.Equal(t, syscall.SIGTERM, status.Signal())
}

func TestAConfigurationFromAPipeStays(t *testing.T) {
	s := startServe(t, "1ms", "/dev/stdin")
	assert.Never(t, func() bool { _, text := s.get(t, "/status/config"); return !strings.Contains(text, "shop.products") },
		2500*time.Millisecond, 100*time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	_, err := s.wait()
	require.NoError(t, err)
}
