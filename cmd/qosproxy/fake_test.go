package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
)

const (
	fakeGuide   = "../../api/fake.md"
	fakeExample = "../../api/fake.yaml"
)

// faked is a running process of fake.
type faked struct {
	cmd *exec.Cmd
	// addrs are the printed addresses by listener; summary is the line after them.
	addrs   map[string]string
	summary string
	out     *bufio.Scanner

	mu  sync.Mutex
	log bytes.Buffer
}

// Write receives the log.
func (f *faked) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *faked) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// startFake runs fake on free ports, and returns once it has printed its addresses.
func startFake(t *testing.T, args ...string) *faked {
	t.Helper()
	f := &faked{addrs: map[string]string{}}
	f.cmd = exec.Command(os.Args[0], append([]string{"fake", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	f.cmd.Env = append(os.Environ(), asCommand+"=1")
	f.cmd.Stderr = f
	stdout, err := f.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, f.cmd.Start())
	t.Cleanup(func() { _ = f.cmd.Process.Kill() })
	f.out = bufio.NewScanner(stdout)
	for f.summary == "" && f.out.Scan() {
		fields := strings.Fields(f.out.Text())
		if len(fields) == 2 {
			f.addrs[fields[0]] = fields[1]
		} else {
			f.summary = f.out.Text()
		}
	}
	require.NotEmpty(t, f.summary, f.logged())
	return f
}

// ask sends a lookup and returns status and body of the answer.
func (f *faked) ask(t *testing.T, table, keys string) string {
	t.Helper()
	resp, err := http.Post("http://"+f.addrs["http"]+"/v1/"+table+":batchGet", "application/json", strings.NewReader(`{"keys": `+keys+`}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.Status + " " + string(body)
}

// end sends SIGTERM and returns how the process ended.
func (f *faked) end(t *testing.T) error {
	t.Helper()
	require.NoError(t, f.cmd.Process.Signal(syscall.SIGTERM))
	defer time.AfterFunc(time.Minute, func() { _ = f.cmd.Process.Kill() }).Stop()
	for f.out.Scan() {
	}
	return f.cmd.Wait()
}

func TestFakeServesTheExampleOfItsGuide(t *testing.T) {
	f := startFake(t, "--data", fakeExample, "--admin", "127.0.0.1:0")
	assert.Equal(t, "2 tables, 6 rows of "+fakeExample, f.summary)
	require.Len(t, f.addrs, 3)
	for name, addr := range f.addrs {
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		assert.NotEqual(t, "0", port, name)
	}
	text, err := os.ReadFile(fakeGuide)
	require.NoError(t, err)
	assert.Contains(t, string(text), strings.ReplaceAll(f.summary, "../../", ""), "the guide shows what it prints")

	out, err := execute(t, "get", "shop.orders", "north:2026/3", "--addr", f.addrs["grpc"])
	require.NoError(t, err, out)
	assert.Contains(t, out, "8.00", "by gRPC")
	ready, err := http.Get("http://" + f.addrs["admin"] + "/readyz")
	require.NoError(t, err)
	defer ready.Body.Close()
	assert.Equal(t, http.StatusOK, ready.StatusCode)

	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	wanted := []string{`"status":"UNAVAILABLE"`, `"unprocessed_keys":["sku-2"]`, `"status":"SHED"`, `"name":"Kettle"`}
	commands := regexp.MustCompile(`(?m)^curl (?:.*\\\n)*.*$`).FindAllString(string(text), -1)
	require.Len(t, commands, len(wanted), "examples of the guide")
	for i, command := range commands {
		require.Contains(t, command, "127.0.0.1:8080")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "127.0.0.1:8080", f.addrs["http"])).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), wanted[i], command)
	}
	require.NoError(t, f.end(t))
}

func TestFakeReadsItsFileAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.yaml")
	write := func(row string) {
		require.NoError(t, os.WriteFile(file, []byte("tables: [{name: t.rows, columns: {id: text}, rows: ["+row+"]}]\n"), 0o600))
	}
	write("{id: a}")
	f := startFake(t, "--data", file)
	found := func(key string) func() bool {
		return func() bool { return strings.Contains(f.ask(t, "t/rows", `["`+key+`"]`), `"FOUND"`) }
	}
	require.True(t, found("a")())
	require.False(t, found("b")())

	write("{id: b}")
	require.Eventually(t, found("b"), 20*time.Second, 20*time.Millisecond, "by itself")
	write("{ids: c}")
	require.NoError(t, f.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(f.logged(), "tables[0].rows[0].ids: no column") }, 20*time.Second, 20*time.Millisecond)
	assert.Contains(t, f.logged(), "rows.yaml:1:")
	assert.True(t, found("b")(), "a mistake changes nothing")
	write("{id: d}")
	require.NoError(t, f.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, found("d"), 20*time.Second, 20*time.Millisecond)
	require.NoError(t, f.end(t))
}

func TestFakeEndsOnSIGTERMWithLookupsInFlight(t *testing.T) {
	f := startFake(t, "--data", fakeExample)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addrs["http"]+"/v1/shop/products:batchGet",
		strings.NewReader(`{"keys": ["sku-late"], "timeout": "50s"}`))
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := http.DefaultClient.Do(request); err == nil {
			_ = resp.Body.Close()
		}
	}()
	time.Sleep(200 * time.Millisecond)
	begin := time.Now()
	require.NoError(t, f.end(t), "exit 0")
	assert.Less(t, time.Since(begin), 20*time.Second, "it does not wait out a delay of a minute")
	<-ended
}

func TestFakeRefusesMistakes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("tables:\n  - name: t.rows\n    colums: {}\n"), 0o600))
	for says, args := range map[string][]string{
		"--data is missing": {},
		`bad.yaml:3:5: tables[0].colums: unknown key "colums", did you mean "columns"?`: {"--data", bad},
		"nothing.yaml":                                                  {"--data", "nothing.yaml"},
		`--grpc "50051" is not an address`:                              {"--data", fakeExample, "--grpc", "50051"},
		"--grpc and --http are both off":                                {"--data", fakeExample, "--grpc", "off", "--http", "off"},
		"expected no argument, got 1 arguments":                         {fakeExample},
		"unknown flag: --date; did you mean --data?; see qosproxy fake": {"--date", bad},
	} {
		_, err := execute(t, append([]string{"fake"}, args...)...)
		require.Error(t, err, says)
		var usage *command.UsageError
		require.ErrorAs(t, err, &usage)
		assert.Contains(t, err.Error(), says)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	args := []string{"fake", "--data", fakeExample, "--grpc", "127.0.0.1:0", "--http", taken.Addr().String()}
	_, err = execute(t, args...)
	require.ErrorContains(t, err, "listen for http on "+taken.Addr().String()+": the port is taken by another process")
	assert.Equal(t, command.ExitFailed, run(t.Context(), args))
}
