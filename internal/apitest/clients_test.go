package apitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/clienttest"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/standin"
)

// required is an environment variable that `make test-clients` sets, which has built
// grpcurl. Other languages and their registries may still be missing, unless
// clienttest.Required is set: the project requires only Go.
const required = "QOSPROXY_CLIENT_TOOLS"

// serve runs a proxy with the demo's tables, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	address, _ := serveBoth(t)
	return address
}

// serveBoth is like serve and also returns the address of the HTTP listener.
func serveBoth(t *testing.T) (grpc, http string) {
	t.Helper()
	on := server.Listener{Address: "127.0.0.1:0"}
	s, stop, err := standin.Serve(t.Context(), server.Config{GRPC: on, HTTP: on}, server.Deps{},
		standin.Table{
			Name: "shop.products", Columns: []string{"id text", "name text", "price decimal", "stock int"},
			Rows: [][]string{{`"sku-00001"`, `"Copper Kettle"`, `"133.44"`, `7`}, {`"sku-00002"`, `"Lamp"`, `"9.00"`, `null`}},
			Slow: map[string]time.Duration{`"slow"`: time.Minute},
		},
		standin.Table{
			Name: "shop.features", Columns: []string{"user text", "feature text", "score float"}, Clustering: 1,
			Rows: [][]string{{`"user-0007"`, `"avg_basket"`, `0.5`}},
		})
	require.NoError(t, err)
	t.Cleanup(stop)
	return s.Addr("grpc").String(), s.Addr("http").String()
}

// grpcurlExamples returns the commands of a document that begin with grpcurl. Continued
// lines are joined.
func grpcurlExamples(t *testing.T, document string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var commands []string
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		if strings.HasPrefix(line, "grpcurl ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	require.NotEmpty(t, commands, document)
	return commands
}

// The examples of the documents run as they are written, except for the address.
func TestGrpcurlExamples(t *testing.T) {
	tools, err := filepath.Abs("../bin/tools")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(tools, "grpcurl")); err != nil {
		require.Empty(t, os.Getenv(required), err)
		t.Skip("there is no bin/tools/grpcurl (make test-clients builds it)")
	}
	const written = "127.0.0.1:50051"
	address := serve(t)
	for _, command := range grpcurlExamples(t, "clients.md") {
		require.Contains(t, command, written)
		sh := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, written, address))
		sh.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
		out, err := sh.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
		expected := map[string]string{
			"list": "qosproxy.v1.QosProxy.BatchGet", "describe": "repeated .qosproxy.v1.Key keys", "Check": "SERVING",
			"ListTables": `"keyspace": "shop"`, "BatchGet": "KEY_STATUS_FOUND", "StreamBatchGet": "KEY_STATUS_FOUND",
		}
		for word, says := range expected {
			if strings.HasSuffix(command, "/"+word) || strings.Contains(command, " "+word+" ") {
				assert.Contains(t, string(out), says, command)
				delete(expected, word)
			}
		}
		assert.Len(t, expected, 5, "%s: no expectation for this example", command)
	}
}

// example returns the code block of the README that contains the text.
func example(t *testing.T, contains string) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 1 && strings.Contains(block, contains) {
			_, code, _ := strings.Cut(block, "\n")
			return code
		}
	}
	require.Fail(t, "the README has no example with "+contains)
	return ""
}

// The first lookups of the README run as they are written, except for the addresses.
func TestFirstLookups(t *testing.T) {
	if testing.Short() && os.Getenv(required) == "" {
		t.Skip("builds a program")
	}
	grpc, http := serveBoth(t)
	run := func(t *testing.T, program string, args ...string) string {
		t.Helper()
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = ".."
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	t.Run("curl", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip(err)
		}
		out := run(t, "sh", "-c", strings.ReplaceAll(example(t, "curl "), "127.0.0.1:8080", http))
		assert.Contains(t, out, `{"key":"sku-00001","status":"FOUND","rows":[{"name":"Copper Kettle","price":133.44}]}`)
		assert.Contains(t, out, `{"key":"nope","status":"NOT_FOUND"}`)
	})
	t.Run("Python", func(t *testing.T) {
		out := run(t, "python3", "-c", strings.ReplaceAll(example(t, "import json"), "127.0.0.1:8080", http))
		assert.Equal(t, "sku-00001 FOUND [{'name': 'Copper Kettle', 'price': 133.44}]\nnope NOT_FOUND None\n", out)
	})
	t.Run("Go", func(t *testing.T) {
		code := "package main\n\nimport (\n\"context\"\n\"fmt\"\n\n\"github.com/qosproxy/qosproxy/api/qosproxy\"\n)\n\n" +
			"func main() {\nctx := context.Background()\n" +
			strings.ReplaceAll(example(t, "qosproxy.Dial"), "127.0.0.1:50051", grpc) +
			"if err != nil {\npanic(err)\n}\n}\n"
		file := filepath.Join(t.TempDir(), "main.go")
		require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
		assert.Equal(t, "0 FOUND\n1 NOT_FOUND\n", run(t, "go", "run", file))
	})
}

// TestPython runs the package's own tests, and checks its generated code and the documents'
// example.
func TestPython(t *testing.T) {
	if testing.Short() && os.Getenv(required) == "" {
		t.Skip("installs grpcio")
	}
	interpreter := clienttest.Python(t, absolute(t, "."))
	run := func(name string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = "python" // In the folder api, qosproxy would be the folder of the Go package.
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	run(interpreter, "-m", "unittest", "discover", "-s", "tests")

	fresh := t.TempDir()
	run("sh", "generate.sh", interpreter, fresh)
	generated, err := filepath.Glob(filepath.Join(fresh, "qosproxy", "v1", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, generated)
	for _, file := range generated {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		kept, err := os.ReadFile(filepath.Join("python", "qosproxy", "v1", filepath.Base(file)))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(kept), "python/qosproxy/v1/%s is stale: run make proto-python and commit what it writes", filepath.Base(file))
	}

	address := serve(t)
	ask := func(keys ...string) string {
		return run(interpreter, append([]string{"lookup.py", address}, keys...)...)
	}
	assert.Equal(t, "sku-00001 FOUND\n    name Copper Kettle\n    stock 7\nnope NOT_FOUND\nsku-00002 FOUND\n    name Lamp\n    stock None\n",
		ask("sku-00001", "nope", "sku-00002"))
	assert.Equal(t, "sku-00001 FOUND\n    name Copper Kettle\n    stock 7\nslow TIMED_OUT deadline\n", ask("sku-00001", "slow"), "a part of the answer by the deadline")
	assert.Eventually(t, func() bool { // The answer has ten milliseconds to arrive before the client's own deadline.
		return ask("slow") == "DEADLINE_EXCEEDED\nreason deadline\nslow TIMED_OUT deadline\n"
	}, time.Minute, time.Millisecond, "none answered")
	assert.Equal(t, "INVALID_ARGUMENT\nreason invalid_request\nfield keys[1]\n", ask("sku-00001", ""), "an empty key")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
