package cqltype

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seedTypes are the types of the golden vectors.
func seedTypes(f *testing.F) []string {
	cells, _ := goldens(f)
	var names []string
	for _, g := range cells {
		if len(names) == 0 || names[len(names)-1] != g.Type {
			names = append(names, g.Type)
		}
	}
	return names
}

// fuzzType parses the name of a type that the fuzzer has made.
func fuzzType(t *testing.T, name string) *Type {
	typ, err := Parse(name, testUDTs, "ks")
	if err != nil {
		t.Skip()
	}
	return typ
}

func FuzzAppendJSON(f *testing.F) {
	cells, _ := goldens(f)
	for i, g := range cells {
		if i%7 == 0 {
			f.Add(g.Type, g.bytes(f))
		}
	}
	f.Fuzz(func(t *testing.T, name string, cell []byte) {
		typ := fuzzType(t, name)
		out, err := typ.AppendJSON(nil, cell)
		if err == nil {
			require.True(t, json.Valid(out), "%s %x: %s", name, cell, out)
		}
		if err != nil && !typ.contains(Time) && !strings.Contains(err.Error(), "a map key of more than") {
			require.Error(t, typ.Validate(cell), "a valid cell can be shown")
		}
		if text, err := typ.AppendText(nil, cell); err == nil {
			require.NotContains(t, string(text), "\x1b")
		}
		var r recorder
		if typ.Walk(cell, &r) == nil {
			require.Zero(t, r.depth)
		}
	})
}

func FuzzEncodeJSON(f *testing.F) {
	_, inputs := goldens(f)
	for i, g := range inputs {
		if i%7 == 0 {
			f.Add(g.Type, []byte(*g.Input))
		}
	}
	f.Fuzz(func(t *testing.T, name string, in []byte) {
		typ := fuzzType(t, name)
		cell, err := typ.EncodeJSON(in)
		if err != nil {
			require.Less(t, len(err.Error()), 1000+len(name)*(maxDepth+2), "an error repeats little of the value")
			require.Nil(t, cell)
			return
		}
		require.True(t, json.Valid(in), "%q", in)
		out, err := typ.AppendJSON(nil, cell)
		require.NoError(t, err, "%s %q %x", name, in, cell)
		require.True(t, json.Valid(out), "%s", out)
		if !readsBack(typ) || cell == nil {
			return
		}
		again, err := typ.EncodeJSON(out)
		if err == nil { // NaN is null, which a collection cannot hold
			text, err := typ.AppendJSON(nil, again)
			require.NoError(t, err)
			require.Equal(t, string(out), string(text), "%s %q", name, in)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range seedTypes(f) {
		f.Add(name)
	}
	f.Add("frozen<\"a\"\"b\">")
	f.Add("'org.example.Type(a, ''b'')'")
	f.Add("ks.address")
	f.Fuzz(func(t *testing.T, name string) {
		typ := fuzzType(t, name)
		again, err := Parse(typ.String(), testUDTs, "ks")
		require.NoError(t, err, "%q", typ)
		require.Equal(t, typ, again)
		typ.AllowedInPartitionKey()
	})
}

func FuzzPartitionKey(f *testing.F) {
	for _, s := range []string{`a:7`, `["a", 7]`, `{"user": "a", "day": 7}`, `"a:b":7`, `a/7`, `"a/b"/7`, `a\/b:7`, `a\:b\\:7`, `7`, `null`, `["a", null]`, `:`} {
		f.Add("text", "int", s)
		f.Add("frozen<list<text>>", "timestamp", s)
		f.Add("", "blob", s)
	}
	f.Fuzz(func(t *testing.T, first, second, s string) {
		types, names := []*Type{fuzzType(t, second)}, []string{"user"}
		if first != "" {
			types, names = append(types, fuzzType(t, first)), append(names, "day")
		}
		// The columns behind the partition key are clustering columns.
		for partitionKey := 1; partitionKey <= len(types); partitionKey++ {
			for _, parse := range []func() ([][]byte, error){
				func() ([][]byte, error) { return KeyFromJSON(types, names, partitionKey, []byte(s)) },
				func() ([][]byte, error) { return KeyFromText(types, names, partitionKey, s) },
			} {
				key, err := parse()
				if err != nil {
					require.Nil(t, key)
					continue
				}
				require.GreaterOrEqual(t, len(key), partitionKey)
				require.LessOrEqual(t, len(key), len(types))
				for i, c := range key {
					require.NotNil(t, c)
					_, err := types[i].AppendJSON(nil, c)
					require.NoError(t, err)
				}
			}
		}
	})
}
