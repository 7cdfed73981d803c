package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/lab/chaos"
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

func TestWrongUsageIsExitCode2AndSaysWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"an unknown command":         {[]string{"dmeo"}, `unknown command "dmeo"`},
		"an unknown flag":            {[]string{"demo", "--onec"}, "unknown flag: --onec; did you mean --once?; see qoslab demo --help"},
		"too many nodes":             {[]string{"demo", "--nodes", "99"}, "use 1 to 9"},
		"too many nodes to load":     {[]string{"bench", "--nodes", "99"}, "use 1 to 9"},
		"two kinds of load":          {[]string{"bench", "--rate", "1", "--ramp"}, "give one of them"},
		"a target that is none":      {[]string{"bench", "--target", "x"}, `"x"`},
		"a profile that is no file":  {[]string{"bench", "load", "--profile", "absent"}, "give a YAML file, or accounts or events or features or orders or products"},
		"no experiment":              {[]string{"experiment"}, "the names of experiments"},
		"an experiment that is none": {[]string{"experiment", "x", "--proxy", os.Args[0]}, `no experiment "x"`},
		"a proxy that is none":       {[]string{"experiment", "targeting", "--proxy", filepath.Join(t.TempDir(), "none")}, "--proxy"},
		"another build that is none": {[]string{"experiment", "builds", "--proxy", os.Args[0], "--against", filepath.Join(t.TempDir(), "none")}, "--against"},
		"no file for a profile":      {[]string{"profile"}, "the file to write"},
		"a length below zero":        {[]string{"profile", "x.pgo", "--length", "-1s"}, "must not be below 0"},
		"no folder of verdicts":      {[]string{"chaos", "report", "README.md"}, "a document and one or more folders"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, tc.args...)
			require.ErrorContains(t, err, tc.says)
			var usage *command.UsageError
			require.ErrorAs(t, err, &usage)
			assert.Equal(t, command.ExitUsage, command.Run(t.Context(), newRoot(), tc.args))
		})
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		assert.NotEmpty(t, c.Short, c.CommandPath())
		assert.Contains(t, c.Example, "qoslab", c.CommandPath())
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestTheProxyIsTheNamedOneOrInPath(t *testing.T) {
	folder := t.TempDir()
	binary := filepath.Join(folder, proxyName)
	t.Setenv("PATH", folder)
	_, err := findProxy("")
	require.ErrorContains(t, err, "make build")

	require.NoError(t, os.WriteFile(binary, nil, 0o700))
	for _, named := range []string{"", binary, proxyName} {
		found, err := findProxy(named)
		require.NoError(t, err)
		assert.Equal(t, binary, found)
	}
}

func TestChaosReportWritesTheScoreboard(t *testing.T) {
	// A copy of the real document, whose other rows stay.
	before, err := os.ReadFile("../../../../deploy/chaos/README.md")
	require.NoError(t, err)
	document, verdicts := filepath.Join(t.TempDir(), "README.md"), t.TempDir()
	require.NoError(t, os.WriteFile(document, before, 0o600))
	_, err = execute(t, "chaos", "report", document, verdicts)
	require.ErrorContains(t, err, "run make chaos first")

	v := &chaos.Verdict{Scenario: "slow", Fault: "a fault of this test", Tries: []*chaos.Outcome{{}}, Why: "it is a test"}
	v.Judge(func(*chaos.Outcome) []chaos.Check { return nil })
	require.NoError(t, v.Save(verdicts))
	_, err = execute(t, "chaos", "report", document, verdicts)
	require.NoError(t, err)
	after, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.Contains(t, string(after), "| `slow`: a fault of this test |")
	assert.Equal(t, strings.Count(string(before), "\n| `"), strings.Count(string(after), "\n| `"), "the other rows stay")
}
