package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program has a command that takes one argument and fails with err.
func program(err error) *cobra.Command {
	root := Root(&cobra.Command{Use: "program"})
	root.AddCommand(&cobra.Command{Use: "do X", Args: Exactly(1, 1, "one X"), RunE: func(*cobra.Command, []string) error { return err }})
	return root
}

func TestHowACommandLineEnds(t *testing.T) {
	failed := errors.New("it broke")
	for name, c := range map[string]struct {
		args []string
		err  error
		code int
	}{
		"done":                 {[]string{"do", "x"}, nil, ExitDone},
		"help":                 {nil, nil, ExitDone},
		"failed":               {[]string{"do", "x"}, failed, ExitFailed},
		"a mistake":            {[]string{"do", "x"}, Usage(failed), ExitUsage},
		"a mistake, formatted": {[]string{"do", "x"}, Usagef("x: %w", failed), ExitUsage},
		"no argument":          {[]string{"do"}, nil, ExitUsage},
		"two arguments":        {[]string{"do", "x", "y"}, nil, ExitUsage},
		"an unknown command":   {[]string{"od"}, nil, ExitUsage},
		"an unknown flag":      {[]string{"do", "--x"}, nil, ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.code, Run(t.Context(), program(c.err), c.args))
		})
	}
	assert.ErrorIs(t, Usage(failed), failed)
}

func TestOneOf(t *testing.T) {
	require.NoError(t, OneOf("json", "table", "json"))
	require.ErrorContains(t, OneOf("xml", "table", "json"), `-o "xml": use table or json`)
}

func TestAMistakeInTheConfigurationIsOneOfUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("defaults:\n  timout: 5ms\n"), 0o600))
	_, err := LoadConfig(file)
	var usage *UsageError
	require.ErrorAs(t, err, &usage)
	require.NoError(t, os.WriteFile(file, []byte("defaults:\n  timeout: 5ms\n"), 0o600))
	_, err = LoadConfig(file)
	require.NoError(t, err)
}

func TestCommitIsNeverEmpty(t *testing.T) {
	assert.NotEmpty(t, Commit(""))
}
