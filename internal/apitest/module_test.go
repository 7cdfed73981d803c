package apitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// importer creates a module that imports the given package of the module at dir. It requires
// what that module requires, as go mod tidy would write it. It returns the folder of the new
// module.
func importer(t *testing.T, dir, imports string) string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	module := regexp.MustCompile(`(?m)^module (\S+)$`).FindStringSubmatch(read("go.mod"))
	require.NotNil(t, module)
	at, err := filepath.Abs(dir)
	require.NoError(t, err)
	own := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(own, name), []byte(text), 0o600))
	}
	write("main.go", "package main\n\nimport _ \""+imports+"\"\n\nfunc main() {}\n")
	write("go.sum", read("go.sum"))
	text := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(read("go.mod"), "module importer.example")
	text = regexp.MustCompile(`=> \.\./\.\.$`).ReplaceAllString(strings.TrimSpace(text), "=> "+filepath.Join(at, "../.."))
	write("go.mod", text+"\nrequire "+module[1]+" v0.0.0\nreplace "+module[1]+" => "+at+"\n")
	return own
}

// goLists returns the lines that go list prints in a module.
func goLists(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	// With -mod=readonly, the command fails if go.mod and go.sum are not complete for an
	// importer.
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-mod=readonly"}, args...)...)
	list.Dir = dir
	list.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var complaint strings.Builder
	list.Stderr = &complaint
	out, err := list.Output()
	require.NoError(t, err, complaint.String())
	lines := slices.Collect(strings.Lines(string(out)))
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return slices.DeleteFunc(slices.Compact(lines), func(line string) bool { return line == "" })
}

// servers matches the server's modules. No importer of the client may depend on any of them.
var servers = regexp.MustCompile(`(?i)gocql|prometheus|cobra|zerolog|automemlimit|goccy|testify|hdrhistogram|/qosproxy/qosproxy$`)

// TestTheClientIsLight limits which modules the client adds to a program's module graph, and
// which it builds in. Scanners report both, and versions are selected among both.
func TestTheClientIsLight(t *testing.T) {
	const ours = "github.com/qosproxy/qosproxy/api"
	dir := importer(t, ".", ours+"/qosproxy")

	graph := goLists(t, dir, "-m", "-f", "{{.Path}}", "all")
	assert.LessOrEqual(t, len(graph), 45, "the module graph of an importer: %s", strings.Join(graph, "\n"))
	for _, module := range graph {
		assert.False(t, servers.MatchString(module), "the module graph of an importer has %s", module)
	}
	built := goLists(t, dir, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	assert.Equal(t, []string{ours, "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/genproto/googleapis/rpc",
		"google.golang.org/grpc", "google.golang.org/protobuf", "importer.example"}, built, "the modules that a program builds in")
}

// TestTheClientNeedsNoNewGo checks the go lines: none names a newer release of Go than the
// code and modules of the client need.
func TestTheClientNeedsNoNewGo(t *testing.T) {
	for dir, imports := range map[string]string{".": "/qosproxy", "qosproxy/cql": "/qosproxy/cql"} {
		own := importer(t, dir, "github.com/qosproxy/qosproxy/api"+imports)
		for _, line := range goLists(t, own, "-m", "-f", "{{.Path}} {{.GoVersion}}", "all") {
			module, version, _ := strings.Cut(line, " ")
			assert.False(t, newer(version), "%s asks for Go %s", module, version)
		}
	}
	assert.True(t, newer("1.24"))
	assert.True(t, newer("1.24.0"))
	assert.True(t, newer("1.23.1"))
	assert.False(t, newer("1.23.0"))
}

// newer reports whether a version of Go is above 1.23.0. An empty version counts as old.
func newer(version string) bool {
	return !regexp.MustCompile(`^(|1\.([0-9]|1[0-9]|2[0-2])(\..*)?|1\.23(\.0)?)$`).MatchString(version)
}

// TestWhatTheDriverIsNeededFor checks that package cql, which decodes with gocql, has a module
// of its own, and that importing cql does not add the modules of the server either.
func TestWhatTheDriverIsNeededFor(t *testing.T) {
	text, err := os.ReadFile("qosproxy/cql/go.mod")
	require.NoError(t, err)
	version, err := os.ReadFile("../cmd/qosproxy/main.go")
	require.NoError(t, err)
	release := regexp.MustCompile(`(?m)^var version = "(.*)"$`).FindSubmatch(version)
	require.NotNil(t, release)
	assert.Contains(t, string(text), "github.com/qosproxy/qosproxy/api v"+string(release[1])+"\n", "the client of the same release")
	assert.NotContains(t, string(text), "github.com/qosproxy/qosproxy v")
}
