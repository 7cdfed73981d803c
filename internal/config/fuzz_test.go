package config

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzParse parses arbitrary input: Parse never panics, an error joins problems
// with texts, and an accepted configuration is valid and survives YAML and
// Parse.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	require.NoError(f, err)
	for _, name := range append(files, "reference.yaml") {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("tables:\n- &a {name: a.b, sla: &s {target: 1s}}\n- {<<: *a, name: '\"A\".\"b\"', sla: *s}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "f.yaml")
		if err != nil {
			var joined interface{ Unwrap() []error }
			require.ErrorAs(t, err, &joined)
			require.NotEmpty(t, Explain(err))
			return
		}
		require.NoError(t, c.Validate())
		text, err := c.YAML()
		require.NoError(t, err)
		if !utf8.Valid(data) {
			return
		}
		again, err := Parse(text, "f.yaml")
		require.NoError(t, err, "%s", text)
		require.Len(t, again.Tables, len(c.Tables))
		for i := range c.Tables {
			require.Equal(t, c.Effective(&c.Tables[i]), again.Effective(&again.Tables[i]))
		}
	})
}
