package cqltype

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unhex decodes hexadecimal that may have spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestHostileCellsAreErrors(t *testing.T) {
	for what, c := range map[string]struct{ typ, cell, want string }{
		"an int of three bytes":                  {"int", "000000", "3 bytes instead of 4"},
		"a boolean of two bytes":                 {"boolean", "0001", "2 bytes instead of 1"},
		"text that is no UTF-8":                  {"text", "ff", "not UTF-8"},
		"text with half a surrogate pair":        {"text", "eda080", "not UTF-8"},
		"ascii over 127":                         {"ascii", "c3a4", "a byte over 127"},
		"a decimal without digits":               {"decimal", "00000001", "truncated"},
		"a duration cut short":                   {"duration", "0000", "truncated"},
		"a duration of two signs":                {"duration", "020100", "different sign"},
		"a duration of too many days":            {"duration", "00 ffffffffffffffffff 00", "exceed 32 bits"},
		"a duration of too many months":          {"duration", "ffffffffffffffffff 00 00", "exceed 32 bits"},
		"an address of five bytes":               {"inet", "0102030405", "neither 4 nor 16 bytes"},
		"a uuid of 15 bytes":                     {"uuid", strings.Repeat("00", 15), "15 bytes instead of 16"},
		"a timeuuid of version 4":                {"timeuuid", "550e8400e29b41d4a716446655440000", "version 4 instead of 1"},
		"a time after midnight":                  {"time", "00004e94914f0000", "not within a day"},
		"a negative time":                        {"time", "ffffffffffffffff", "not within a day"},
		"a list that claims two billion":         {"list<int>", "7fffffff", "2147483647 elements in 4 bytes"},
		"a map that claims two billion":          {"map<int, int>", "7fffffff 00000000", "elements in 8 bytes"},
		"a list element that is too long":        {"list<int>", "00000001 7fffffff 00000000", "truncated"},
		"a list with bytes after it":             {"list<int>", "00000000 00", "1 bytes too many"},
		"a map with a null key":                  {"map<text, int>", "00000001 ffffffff ffffffff", "a null key"},
		"a tuple with bytes after it":            {"tuple<text>", "00000000 00", "1 bytes too many"},
		"a tuple whose length is cut short":      {"tuple<text>", "0000", "truncated"},
		"a vector of the wrong size":             {"vector<float, 2>", "00000000", "4 bytes instead of 2 elements of 4"},
		"a vector whose sizes are too large":     {"vector<text, 2>", "f0ffffffff 00", "truncated"},
		"a vector whose sizes exceed an integer": {"vector<text, 1>", "ffffffffffffffffff", "truncated"},
		"a vector of too few bytes":              {"vector<text, 9>", "0000", "truncated"},
		"an empty vector":                        {"vector<float, 2>", "", "0 bytes instead"},
		"bytes of the empty type":                {"empty", "00", "without values"},
	} {
		typ, cell := mustParse(t, c.typ), unhex(t, c.cell)
		got, err := typ.AppendJSON([]byte("before"), cell)
		require.ErrorContains(t, err, c.want, what)
		require.ErrorContains(t, err, "malformed ", what)
		assert.Equal(t, "before", string(got), what)
		if typ.Kind == Time {
			continue // Cassandra stores such a time, but cannot show it
		}
		require.Error(t, typ.Validate(cell), what)
		if typ.Kind != Map {
			require.Error(t, typ.Walk(cell, &recorder{}), what)
		}
	}
	_, err := (&Type{}).AppendJSON(nil, []byte{1})
	require.Error(t, err)
}

func TestEmptyAndNullCells(t *testing.T) {
	for k := ASCII; k < List; k++ {
		typ := &Type{Kind: k}
		want := `""`
		if k == Blob {
			want = `"0x"`
		}
		got, err := typ.AppendJSON(nil, []byte{})
		require.NoError(t, err, k)
		assert.Equal(t, want, string(got), k)
		got, err = typ.AppendJSON(nil, nil)
		require.NoError(t, err, k)
		assert.Equal(t, "null", string(got), k)
		require.NoError(t, typ.Validate(nil))
	}
}

func TestMissingAndNullElements(t *testing.T) {
	for what, c := range map[string]struct{ typ, cell, want string }{
		"a tuple without its end":   {"tuple<int, text>", "00000004 00000007", `[7, null]`},
		"a UDT before a field came": {"address", "00000001 61", `{"street": "a", "zip": null, "tags": null}`},
		"a UDT of no bytes":         {"address", "", `{"street": null, "zip": null, "tags": null}`},
		"a null in a list":          {"list<int>", "00000001 ffffffff", `[null]`},
	} {
		got, err := mustParse(t, c.typ).AppendJSON(nil, unhex(t, c.cell))
		require.NoError(t, err, what)
		assert.Equal(t, c.want, string(got), what)
	}
}

// TestQuotedMapKeysAreBounded nests maps in keys of maps, which double the backslashes at
// each of 24 levels.
func TestQuotedMapKeysAreBounded(t *testing.T) {
	typ, cell := &Type{Kind: Text}, []byte("a")
	for range 24 {
		typ = &Type{Kind: Map, Frozen: true, Elems: []*Type{typ, {Kind: Int}}}
		cell = appendEntries(nil, []entry{{cell, []byte{}}}, true)
	}
	_, err := typ.AppendJSON(nil, cell)
	require.ErrorContains(t, err, "a map key of more than 16777216 bytes")
}

func TestAppendJSONDoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 4096)
	for name, json := range benchmarkValues {
		typ := mustParse(t, name)
		cell, err := typ.EncodeJSON([]byte(json))
		require.NoError(t, err)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := typ.AppendJSON(dst, cell); err != nil {
				t.Fatal(err)
			}
		})
		assert.Zero(t, allocs, name)
	}
}

var benchmarkValues = map[string]string{
	"text":                   `"The quick brown fox jumps over the lazy dog"`,
	"int":                    "1234567",
	"float":                  "19.5",
	"double":                 "3.141592653589793",
	"decimal":                `"12345.67"`,
	"uuid":                   `"550e8400-e29b-41d4-a716-446655440000"`,
	"timestamp":              `"2011-02-03 04:05:06.789Z"`,
	"frozen<list<int>>":      "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
	"frozen<map<int, text>>": `{"1": "one", "2": "two"}`,
	"vector<float, 8>":       "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]",
}

func BenchmarkAppendJSON(b *testing.B) {
	for name, json := range benchmarkValues {
		typ := mustParse(b, name)
		cell, err := typ.EncodeJSON([]byte(json))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = typ.AppendJSON(dst[:0], cell)
			}
		})
	}
}

func BenchmarkEncodeJSON(b *testing.B) {
	for name, json := range benchmarkValues {
		typ, in := mustParse(b, name), []byte(json)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := typ.EncodeJSON(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAppendJSONStringEscapesEveryByteAlike puts each byte at each place of a text, because
// most of a text is examined eight bytes at a time.
func TestAppendJSONStringEscapesEveryByteAlike(t *testing.T) {
	for c := range 256 {
		alone := AppendJSONString(nil, string([]byte{byte(c)}))
		escaped := string(alone[1 : len(alone)-1])
		for at := range 20 {
			text := bytes.Repeat([]byte("!~"), 10)
			text[at] = byte(c)
			want := `"` + string(text[:at]) + escaped + string(text[at+1:]) + `"`
			require.Equal(t, want, string(AppendJSONString(nil, string(text))), "byte %#x at %d", c, at)
			require.Equal(t, want, string(appendJSONString(nil, text)), "byte %#x at %d", c, at)
		}
	}
	for c := range 256 {
		needsEscape := c < ' ' || c == '"' || c == '\\'
		assert.Equal(t, needsEscape, len(AppendJSONString(nil, string([]byte{byte(c)}))) > 3, "byte %#x", c)
	}
}

func TestAppendJSONString(t *testing.T) {
	assert.Equal(t, `"a\"\\\b\t\n\f\r\u0000\u001Fä/`+"\x7f"+`"`, string(AppendJSONString(nil, "a\"\\\b\t\n\f\r\x00\x1fä/\x7f")))
	long := bytes.Repeat([]byte("a"), 1000)
	assert.Equal(t, `"`+string(long)+`"`, string(AppendJSONString(nil, string(long))))
}
