package cqltype

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]string{
		"int":                               "int",
		"VARCHAR":                           "text",
		" map < text,frozen<list<int> > > ": "map<text, frozen<list<int>>>",
		"vector<float, 3>":                  "vector<float, 3>",
		"vector<vector<smallint,2>,4>":      "vector<vector<smallint, 2>, 4>",
		"Tuple<int>":                        "tuple<int>",
		"address":                           "address",
		"ADDRESS":                           "address",
		"ks.address":                        "address",
		`"ks"."address"`:                    "address",
		`frozen<"Mixed Case">`:              `frozen<"Mixed Case">`,
		"'org.example.Type(a, ''b'')'":      "'org.example.Type(a, ''b'')'",
		"set<frozen<tuple<int, frozen<address>>>>": "set<frozen<tuple<int, frozen<address>>>>",
	} {
		typ, err := Parse(name, testUDTs, "ks")
		require.NoError(t, err, name)
		assert.Equal(t, want, typ.String())
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for name, want := range map[string]string{
		"":                          "expected the name of a type at byte 0",
		"nope":                      `no such type`,
		"other.address":             `no such type`,
		"int int":                   `unexpected "int" after the type`,
		"list<int":                  "expected , or > at byte 8",
		"list<int, int>":            "list takes 1 types, got 2",
		"map<int>":                  "map takes 2 types, got 1",
		"frozen<int>":               "frozen<> is for collections, tuples and user-defined types, not for int",
		"int<int>":                  `"int" takes no parameters`,
		"vector<int>":               "a vector takes a type and a dimension: vector<float, 3>",
		"vector<int, 0>":            `the dimension of a vector is a number from 1 to 2147483647, got "0"`,
		"vector<int, 3000000000>":   "the dimension of a vector is a number from 1 to 2147483647",
		"vector<int, 3":             "missing > after the dimension of a vector",
		"vector<empty, 3>":          "a vector may not have empty elements",
		`"open`:                     "the quote at byte 0 is not closed",
		"''":                        "empty name at byte 0",
		strings.Repeat("list<", 50): "nested deeper than 32 types",
	} {
		_, err := Parse(name, testUDTs, "ks")
		require.ErrorContains(t, err, want, name)
		require.ErrorContains(t, err, "CQL type ")
	}
	_, err := Parse("address", nil, "ks")
	require.ErrorContains(t, err, `unknown type "address"`)
	_, err = Parse("address", func(string, string) (*Type, error) { return nil, nil }, "ks")
	require.ErrorContains(t, err, `keyspace "ks" has no user-defined type "address"`)
}

func TestNamesAreQuotedWhereCQLNeedsIt(t *testing.T) {
	for name, want := range map[string]string{
		"plain_1": "plain_1",
		"Upper":   `"Upper"`,
		"1st":     `"1st"`,
		"a b":     `"a b"`,
		`a"b`:     `"a""b"`,
		"table":   `"table"`,
		"int":     `"int"`,
		"":        `""`,
	} {
		assert.Equal(t, want, (&Type{Kind: UDT, Name: name}).String())
	}
}

func TestKindNames(t *testing.T) {
	for k := Unknown; k <= Custom; k++ {
		assert.NotEmpty(t, k.String())
	}
	assert.Equal(t, "bigint", BigInt.String())
	assert.Equal(t, "unknown", Kind(200).String())
}

func TestColumnJSONName(t *testing.T) {
	assert.Equal(t, "name", ColumnJSONName("name"))
	assert.Equal(t, "first name", ColumnJSONName("first name"))
	assert.Equal(t, `"Name"`, ColumnJSONName("Name"))
	assert.Equal(t, `"Üml"`, ColumnJSONName("Üml"))
}

func TestAllowedInPartitionKey(t *testing.T) {
	for name, want := range map[string]bool{
		"text":                       true,
		"timeuuid":                   true,
		"vector<float, 3>":           true,
		"frozen<list<int>>":          true,
		"tuple<int, text>":           true,
		"frozen<address>":            true,
		"'org.example.Type'":         true,
		"list<int>":                  false,
		"map<int, int>":              false,
		"address":                    false,
		"counter":                    false,
		"duration":                   false,
		"empty":                      false,
		"tuple<int, duration>":       false,
		"frozen<list<duration>>":     false,
		"vector<tuple<duration>, 2>": false,
	} {
		assert.Equal(t, want, mustParse(t, name).AllowedInPartitionKey(), name)
	}
	assert.False(t, (&Type{}).AllowedInPartitionKey())
}
