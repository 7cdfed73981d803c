package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/suggest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestErrors compares what Explain says of each file of testdata/errors with the
// text beside it. Run with -update after a change, and read the difference.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = Parse(data, filepath.Base(file))
			require.Error(t, err)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(Explain(err)+"\n"), 0o600))
			}
			want, err2 := os.ReadFile(golden)
			require.NoError(t, err2)
			assert.Equal(t, string(want), Explain(err)+"\n")
		})
	}
}

func TestEveryProblemIsReportedOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := Parse([]byte("log: {format: xml}\ncassandra: {port: 0}\ndefaults:\n  timeout: 50\n  max_keys: 0\n"), "f.yaml")
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
	var keys []string
	for _, e := range joined.Unwrap() {
		var p *Error
		require.ErrorAs(t, e, &p)
		assert.Equal(t, "f.yaml", p.File)
		assert.NotZero(t, p.Line)
		keys = append(keys, p.Key)
	}
	assert.Equal(t, []string{"log.format", "cassandra.port", "defaults.timeout", "defaults.max_keys"}, keys)
}

func TestProblemsOfAConfigurationThatIsNoFile(t *testing.T) {
	c := Default()
	require.NoError(t, c.Validate())
	c.Defaults.Timeout = 0
	c.Tables = []Table{{}}
	err := c.Validate()
	require.EqualError(t, err, "defaults.timeout: 0s is not above 0; use a duration such as 50ms\n"+
		"tables[0].name: is missing; write name: keyspace.table")
	assert.Equal(t, err.Error(), Explain(err))
}

func TestAPasswordInTheFileIsNotShown(t *testing.T) {
	_, err := Parse([]byte("cassandra: {username: app, password: hunter2}\n"), "f")
	require.ErrorContains(t, err, "password_file")
	assert.NotContains(t, Explain(err), "hunter2")
}

func TestExplainPassesOtherErrorsOn(t *testing.T) {
	assert.Equal(t, "disk on fire", Explain(errors.New("disk on fire")))
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "--config")
}

func TestNearestNames(t *testing.T) {
	known := names(fieldsOf(reflect.TypeFor[Settings]()))
	for written, want := range map[string]string{
		"timout": "timeout", "time_out": "timeout", "tiemout": "timeout", "max_key": "max_keys", "speculative_rety": "speculative_retry",
		"max_row_per_keys": "max_rows_per_key", "TIMEOUT": "timeout", "sl": "sla", "spec": "speculative_retry", "max_": "", "colour": "", "": "",
	} {
		assert.Equal(t, want, suggest.Nearest(written, known), "%q", written)
	}
}

func TestTheCaretIsBelowAMistakeBehindATab(t *testing.T) {
	o := &origin{file: "f", lines: []string{"é:\tx y"}}
	var p Error
	o.locate(&p, place{line: 1, column: 6})
	assert.Equal(t, "    1 | é:\tx y\n      |   \t  ^", p.Excerpt)
}

func TestAFileThatWouldTakeTheProcessDownIsRefused(t *testing.T) {
	_, err := Parse([]byte(strings.Repeat("[", maxFileBytes+1)), "f")
	require.EqualError(t, err, "f: is larger than 1MiB; is it the right file?")

	for _, deep := range []string{"[", "{a: ", "- ", "? ", "a: [\n"} {
		_, err := Parse([]byte("log: {}\n"+strings.Repeat(deep, 100_000)), "f")
		require.ErrorContains(t, err, "nested deeper than any key")
	}
	many := "cassandra: {contact_points: [" + strings.Repeat("a,", maxNodes) + "a]}"
	_, err = Parse([]byte(many), "f")
	require.ErrorContains(t, err, "too large once its aliases are expanded")
}
