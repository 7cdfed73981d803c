package cqltype

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// golden is one vector of testdata/golden.json, which Cassandra's own classes
// wrote; Golden.java beside it says how.
type golden struct {
	Type string
	// Cell is hexadecimal.
	Cell *string
	// Valid and JSON belong to the vectors of a cell.
	Valid bool
	JSON  *string
	// Input is set in the vectors of a JSON value.
	Input *string
}

func goldens(t testing.TB) (cells, inputs []golden) {
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var all []golden
	require.NoError(t, json.Unmarshal(raw, &all))
	for _, g := range all {
		if g.Input == nil {
			cells = append(cells, g)
		} else {
			inputs = append(inputs, g)
		}
	}
	require.Greater(t, len(cells), 2500)
	require.Greater(t, len(inputs), 2500)
	return cells, inputs
}

func (g golden) bytes(t testing.TB) []byte {
	cell, err := hex.DecodeString(*g.Cell)
	require.NoError(t, err)
	return cell
}

// testUDTs are the user-defined types of the golden vectors.
func testUDTs(keyspace, name string) (*Type, error) {
	udts := map[string]*Type{
		"address": {
			Kind: UDT, Keyspace: "ks", Name: "address", Fields: []string{"street", "zip", "tags"},
			Elems: []*Type{{Kind: Text}, {Kind: Int}, {Kind: Set, Frozen: true, Elems: []*Type{{Kind: Text}}}},
		},
		"Mixed Case": {
			Kind: UDT, Keyspace: "ks", Name: "Mixed Case", Fields: []string{"lower", "Upper", `quo"te`, "Üml"},
			Elems: []*Type{{Kind: Text}, {Kind: Int}, {Kind: Boolean}, {Kind: Double}},
		},
	}
	if t := udts[name]; t != nil && keyspace == "ks" {
		return t, nil
	}
	return nil, errors.New("no such type")
}

func mustParse(t testing.TB, name string) *Type {
	t.Helper()
	typ, err := Parse(name, testUDTs, "ks")
	require.NoError(t, err)
	return typ
}

func TestAppendJSONIsCassandras(t *testing.T) {
	cells, _ := goldens(t)
	for _, g := range cells {
		got, err := mustParse(t, g.Type).AppendJSON([]byte("before"), g.bytes(t))
		if !g.Valid || g.JSON == nil {
			continue // Cassandra would not have stored it, or cannot show it
		}
		if err != nil || string(got) != "before"+*g.JSON {
			t.Errorf("%s %s: want %s, got %s, %v", g.Type, *g.Cell, *g.JSON, got, err)
		}
	}
}

func TestValidateIsCassandras(t *testing.T) {
	cells, _ := goldens(t)
	for _, g := range cells {
		if g.Valid && g.JSON == nil && strings.Contains(g.Type, "text") {
			continue // Cassandra accepts some byte sequences as UTF-8 that it cannot decode
		}
		if err := mustParse(t, g.Type).Validate(g.bytes(t)); (err == nil) != g.Valid {
			t.Errorf("%s %s: valid %v, got %v", g.Type, *g.Cell, g.Valid, err)
		}
	}
}

// moreThanCassandra reports whether Cassandra refuses an input that has only
// one meaning and that AppendJSON or a person writes.
func (g golden) moreThanCassandra() bool {
	number := regexp.MustCompile(`^-?\d+$`)
	return g.Type == "timestamp" && number.MatchString(*g.Input) || // Cassandra accepts only those over 32 bits
		strings.Contains(g.Type, "timestamp") && strings.Contains(*g.Input, `"+`) // years over 9999
}

// lessThanCassandra reports whether Cassandra gives an input a meaning that no
// one intends.
func (g golden) lessThanCassandra() bool {
	return g.Type == "inet" && regexp.MustCompile(`^"[\d.]{1,3}"$`).MatchString(*g.Input) // 1.5 is 1.0.0.5
}

func TestEncodeJSONIsCassandras(t *testing.T) {
	_, inputs := goldens(t)
	for _, g := range inputs {
		got, err := mustParse(t, g.Type).EncodeJSON([]byte(*g.Input))
		switch {
		case g.Cell == nil && err == nil && !g.moreThanCassandra():
			t.Errorf("%s %s: want an error, got %x", g.Type, *g.Input, got)
		case g.Cell != nil && err != nil && !g.lessThanCassandra():
			t.Errorf("%s %s: want %s, got %v", g.Type, *g.Input, *g.Cell, err)
		case g.Cell != nil && err == nil && hex.EncodeToString(got) != *g.Cell:
			t.Errorf("%s %s: want %s, got %x", g.Type, *g.Input, *g.Cell, got)
		}
	}
}

func TestGoldenTypesReadBack(t *testing.T) {
	cells, _ := goldens(t)
	for _, g := range cells {
		typ := mustParse(t, g.Type)
		assert.Equal(t, typ, mustParse(t, typ.String()))
	}
}
