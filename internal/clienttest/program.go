package clienttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Ask is a lookup that a program makes.
type Ask struct {
	// Table is keyspace.table.
	Table string `json:"table"`
	// Keys are lists of components, each written as Value writes it.
	Keys [][]any `json:"keys"`
	// Columns are the columns to return; nil means all.
	Columns []string `json:"columns,omitempty"`
	// TimeoutMillis is the timeout of the lookup; 0 means that of the client.
	TimeoutMillis int `json:"timeout_ms,omitempty"`
	// Rounds is how often unprocessed keys are requested again; nil means never.
	Rounds *int `json:"rounds,omitempty"`
	// Client are the options of a new client, which has a retry budget of its own. If it is nil,
	// the client of the previous lookup is used.
	Client *Options `json:"client,omitempty"`
	// Target is the target of the new client; empty means the target of the program.
	Target string `json:"target,omitempty"`
}

// Options are the options of a client.
type Options struct {
	TimeoutMillis  int    `json:"timeout_ms,omitempty"`
	RetryShed      bool   `json:"retry_shed,omitempty"`
	Token          string `json:"token,omitempty"`
	PlaintextToken bool   `json:"plaintext_token,omitempty"`
	SocketName     string `json:"socket_name,omitempty"`
	// CAFile, CertFile and KeyFile are PEM files; CAFile turns TLS on.
	CAFile   string `json:"ca_file,omitempty"`
	CertFile string `json:"cert_file,omitempty"`
	KeyFile  string `json:"key_file,omitempty"`
}

// Outcome is what a program reports about a lookup.
type Outcome struct {
	// Results are the results of the keys; none if the lookup failed.
	Results []Result `json:"results"`
	// Unprocessed are the positions of unprocessed keys.
	Unprocessed []int `json:"unprocessed"`

	// Code is the gRPC code of a lookup that failed; empty if it did not. The other fields give
	// more detail.
	Code        string   `json:"code"`
	Reason      string   `json:"reason"`
	Field       string   `json:"field"`
	RetryMillis *int     `json:"retry_ms"`
	Statuses    []string `json:"statuses"`
}

// Result is what a program reports about a key.
type Result struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Reason string `json:"reason"`
	// Rows are the cells of each row by column, as Value writes them.
	Rows []map[string]any `json:"rows"`
}

// Program is a conformance program that runs until the test ends.
type Program struct {
	in     io.Writer
	out    *bufio.Reader
	stderr *bytes.Buffer
	wait   func() error
}

// Languages are the languages that have a program.
var Languages = []string{"Python", "TypeScript", "Java"}

// Required is an environment variable. Without it a test is skipped if a language, or a registry
// of its packages, is missing; with it the test fails.
const Required = "REQUIRE_CLIENT_LANGUAGES"

// missing ends a test because a language is missing.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(Required) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Start builds the client of a language in the folder api, and runs its program against target.
func Start(t testing.TB, api, language, target string) *Program {
	t.Helper()
	api, err := filepath.Abs(api)
	if err != nil {
		t.Fatal(err)
	}
	command := Command(t, api, language)
	run := exec.CommandContext(t.Context(), command[0], append(command[1:], target)...)
	p := &Program{stderr: &bytes.Buffer{}}
	run.Stderr = p.stderr
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out, p.wait = in, bufio.NewReader(out), run.Wait
	t.Cleanup(func() {
		_ = in.Close()
		if err := p.wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("%s: %v\n%s", language, err, p.stderr)
		}
	})
	return p
}

// Ask makes a lookup and returns its outcome.
func (p *Program) Ask(t testing.TB, ask Ask) Outcome {
	t.Helper()
	if _, err := p.in.Write(append(encoded(ask), '\n')); err != nil {
		t.Fatalf("%v\n%s", err, p.stderr)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		_ = p.wait()
		t.Fatalf("%s: %v\n%s", encoded(ask), err, p.stderr)
	}
	var out Outcome
	if err := json.Unmarshal(line, &out); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for _, r := range out.Results {
		for _, row := range r.Rows {
			for name, cell := range row {
				row[name] = Sorted(cell)
			}
		}
	}
	return out
}
