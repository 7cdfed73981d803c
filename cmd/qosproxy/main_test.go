package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
)

// execute runs a command line in this process.
func execute(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTokenByTypeNeedsNoCluster(t *testing.T) {
	// The wanted tokens come from CQL's token() function.
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"text":                {[]string{"--type", "text", "a", "hello"}, "a\t-8839064797231613815\nhello\t-3758069500696749310\n"},
		"an int":              {[]string{"--type", "int", "1"}, "1\t-4069959284402364209\n"},
		"a composite":         {[]string{"--type", "text,int", "a:7", `["a",7]`}, "same"},
		"a type with a comma": {[]string{"--type", "frozen<map<text, int>>,int", `[{"a": 1}, 2]`}, "any"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, append([]string{"token"}, tc.args...)...)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			switch tc.want {
			case "same":
				require.Len(t, lines, 2)
				_, first, _ := strings.Cut(lines[0], "\t")
				_, second, _ := strings.Cut(lines[1], "\t")
				assert.Equal(t, first, second, "both spellings are one key")
			case "any":
				assert.Len(t, lines, 1)
			default:
				assert.Equal(t, tc.want, out)
			}
		})
	}
}

func TestWrongUsageIsExitCode2AndSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(file, []byte("defaults:\n  timout: 5ms\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	require.NoError(t, os.WriteFile(empty, []byte("cassandra: {username: u, password_file: /dev/null}\n"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"an unknown command":        {[]string{"sevre"}, `unknown command "sevre"; did you mean serve?; see`},
		"an unknown flag":           {[]string{"serve", "--conf", "x"}, "unknown flag: --conf; did you mean --config?; see qosproxy serve --help"},
		"a missing argument":        {[]string{"get", "shop.products"}, "expected KEYSPACE.TABLE and at least one KEY"},
		"a table without keyspace":  {[]string{"get", "products", "a"}, "is not KEYSPACE.TABLE"},
		"an unknown output":         {[]string{"get", "a.b", "c", "-o", "xml"}, "use table or json"},
		"a key of the wrong type":   {[]string{"token", "--type", "int", "x"}, `key "x"`},
		"an unknown type":           {[]string{"token", "--type", "strng", "x"}, "strng"},
		"a counter as key":          {[]string{"token", "--type", "counter", "1"}, "may not be part of a partition key"},
		"an argument too many":      {[]string{"version", "x"}, "expected no argument"},
		"a mistake in the file":     {[]string{"config", "check", file}, "bad.yaml:2:3"},
		"a file that is empty":      {[]string{"config", "check", empty}, "/dev/null is empty; write the password into it"},
		"serving with such a file":  {[]string{"serve", "--config", empty}, "/dev/null is empty; write the password into it"},
		"serving such a file":       {[]string{"serve", "--config", file}, "timeout"},
		"looking too often":         {[]string{"top", "--interval", "1ms"}, "use 200ms or more"},
		"an admin that is no place": {[]string{"top", "--admin", "ftp://x"}, "use HOST:PORT"},
		"an output of top":          {[]string{"top", "-o", "xml"}, "use table or json"},
		"a doctor of two files":     {[]string{"doctor", "a.yaml"}, "expected no argument"},
		"an output of the doctor":   {[]string{"doctor", "-o", "xml"}, "use table or json"},
		"a doctor's mistaken file":  {[]string{"doctor", "--config", file}, "bad.yaml:2:3"},
		"ranges without a keyspace": {[]string{"ring", "--ranges"}, "--ranges needs a KEYSPACE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, tc.args...)
			require.Error(t, err)
			var usage *command.UsageError
			require.ErrorAs(t, err, &usage)
			assert.Contains(t, err.Error(), tc.says)
			assert.Equal(t, command.ExitUsage, run(t.Context(), tc.args))
		})
	}
}

func TestAFailureIsExitCode1(t *testing.T) {
	args := []string{"get", "shop.products", "a", "--addr", "127.0.0.1:1"}
	_, err := execute(t, args...)
	require.ErrorContains(t, err, "no proxy answers at 127.0.0.1:1")
	assert.Equal(t, command.ExitFailed, run(t.Context(), args))
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		assert.NotEmpty(t, c.Short, c.CommandPath())
		assert.Contains(t, c.Example, "qosproxy", c.CommandPath())
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestConfigShowIsValidAndChecked(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"effective.yaml": {"config", "show"},
		"reference.yaml": {"config", "show", "--defaults"},
	} {
		out, err := execute(t, args...)
		require.NoError(t, err)
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
		out, err = execute(t, "config", "check", file)
		require.NoError(t, err)
		assert.Contains(t, out, "is valid")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
cassandra: {contact_points: ["127.0.0.1:1"]}
listen: {grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"}
shutdown: {delay: 1ms}
`), 0o600))
	assert.Equal(t, command.ExitDone, run(ctx, []string{"serve", "--config", file}), "a signal ends it in good order, even while the cluster is down")
}
