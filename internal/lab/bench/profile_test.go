package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small is a profile with a column of every type.
const small = `
name: small
keyspace: bench
table: small
partitions: 100
rows_per_partition: 3
key: {name: id, type: uuid}
clustering: {name: seq, type: int}
columns:
  - {name: t, type: text, bytes: [10, 1000]}
  - {name: b, type: blob, bytes: [7]}
  - {name: i, type: int}
  - {name: l, type: bigint}
  - {name: d, type: double}
  - {name: f, type: boolean}
  - {name: u, type: uuid}
mix:
  - {keys: 20, weight: 3}
  - {keys: 5, columns: [d, seq], limit_per_key: 2}
`

func parse(t testing.TB, text string) *Profile {
	t.Helper()
	p, err := ParseProfile([]byte(text))
	require.NoError(t, err)
	return p
}

func TestProfilesOfTheBinaryAreValid(t *testing.T) {
	files, err := filepath.Glob("../profiles/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		p, err := ReadProfile(file)
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSuffix(filepath.Base(file), ".yaml"), p.Name)
	}
	_, err = ReadProfile("absent.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestMistakesInAProfileAreNamed(t *testing.T) {
	for want, change := range map[string][2]string{
		"name: ":                                    {"name: small", "name: Small"},
		"table: ":                                   {"table: small", "table: 7"},
		"partitions: 0":                             {"partitions: 100", "partitions: 0"},
		"rows_per_partition: more than one":         {"clustering: {name: seq, type: int}", ""},
		`key.type: "int"`:                           {"type: uuid}\nclustering", "type: int}\nclustering"},
		`clustering.type: "double"`:                 {"seq, type: int", "seq, type: double"},
		"column t is there twice":                   {"name: b,", "name: t,"},
		`column i: type "varint"`:                   {"name: i, type: int", "name: i, type: varint"},
		"column b: bytes 0":                         {"bytes: [7]", "bytes: [0]"},
		"mix[1].keys: 500":                          {"keys: 5,", "keys: 500,"},
		"mix[1].columns: the profile has no column": {"[d, seq]", "[id]"},
		"mix[0].weight: -1":                         {"weight: 3", "weight: -1"},
		"mix[1].limit_per_key: -1":                  {"limit_per_key: 2", "limit_per_key: -1"},
		`unknown field "partition"`:                 {"partitions:", "partition:"},
		"keys.distribution":                         {"mix:", "keys: {distribution: normal}\nmix:"},
		"keys.exponent: 1":                          {"mix:", "keys: {exponent: 1}\nmix:"},
		"keys.unknown: 2":                           {"mix:", "keys: {unknown: 2}\nmix:"},
	} {
		require.Contains(t, small, change[0])
		_, err := ParseProfile([]byte(strings.Replace(small, change[0], change[1], 1)))
		require.ErrorContains(t, err, want)
	}
}
