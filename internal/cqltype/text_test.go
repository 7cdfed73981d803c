package cqltype

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendTextReadsLikeCqlsh(t *testing.T) {
	for _, c := range []struct{ typ, json, want string }{
		{"text", `"it's ä\tb"`, `it's ä\tb`},
		{"text", `"\u001b[31mred\u202e\u0007"`, `\x1b[31mred\u202e\a`},
		{"text", `""`, ``},
		{"int", `7`, `7`},
		{"int", `""`, ``},
		{"double", `"NaN"`, `NaN`},
		{"float", `"-Infinity"`, `-Infinity`},
		{"double", `"Infinity"`, `Infinity`},
		{"double", `1e10`, `1.0E10`},
		{"blob", `"0x0aff"`, `0x0aff`},
		{"blob", `"0x"`, `0x`},
		{"timestamp", `0`, `1970-01-01 00:00:00.000Z`},
		{"list<text>", `["a", "it's"]`, `['a', 'it''s']`},
		{"set<int>", `[2, 1]`, `{1, 2}`},
		{"map<text, timestamp>", `{"a": 0}`, `{'a': '1970-01-01 00:00:00.000Z'}`},
		{"tuple<int, text, uuid>", `[1, null, "550e8400-e29b-41d4-a716-446655440000"]`, `(1, null, 550e8400-e29b-41d4-a716-446655440000)`},
		{"vector<float, 2>", `[1, 2]`, `[1.0, 2.0]`},
		{"address", `{"street": "x"}`, `{street: 'x', zip: null, tags: null}`},
		{`"Mixed Case"`, `{"\"Upper\"": 1}`, `{lower: null, "Upper": 1, "quo""te": null, "Üml": null}`},
	} {
		typ := mustParse(t, c.typ)
		cell, err := typ.EncodeJSON([]byte(c.json))
		require.NoError(t, err, c.typ)
		got, err := typ.AppendText([]byte("> "), cell)
		require.NoError(t, err, c.typ)
		assert.Equal(t, "> "+c.want, string(got), c.typ)
	}
	got, err := mustParse(t, "int").AppendText(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, "null", string(got))
	got, err = mustParse(t, "int").AppendText([]byte("before"), []byte{1})
	require.Error(t, err)
	assert.Equal(t, "before", string(got))
}

func TestAppendTextNeverControlsTheTerminal(t *testing.T) {
	cells, _ := goldens(t)
	for _, g := range cells {
		got, err := mustParse(t, g.Type).AppendText(nil, g.bytes(t))
		if err != nil {
			continue
		}
		require.True(t, utf8.Valid(got), "%s %s", g.Type, *g.Cell)
		for _, r := range string(got) {
			require.True(t, unicode.IsPrint(r) || r == '\u00a0', "%s %s: %q", g.Type, *g.Cell, r)
		}
	}
}

func TestEncodeText(t *testing.T) {
	for _, c := range []struct{ typ, text, json string }{
		{"text", ` "as it is": `, `" \"as it is\": "`},
		{"text", ``, `""`},
		{"text", `null`, `"null"`},
		{"ascii", `a`, `"a"`},
		{"int", ` 7 `, `7`},
		{"bigint", `-9223372036854775808`, `-9223372036854775808`},
		{"boolean", `true`, `true`},
		{"decimal", `1.10`, `"1.10"`},
		{"double", `1e3`, `1000.0`},
		{"blob", `0x00ff`, `"0x00ff"`},
		{"uuid", `550e8400-e29b-41d4-a716-446655440000`, `"550e8400-e29b-41d4-a716-446655440000"`},
		{"timestamp", `2011-02-03T04:05:06Z`, `"2011-02-03 04:05:06.000Z"`},
		{"time", `10:30:00`, `"10:30:00"`},
		{"inet", `::1`, `"::1"`},
		{"frozen<list<int>>", `[1, 2]`, `[1, 2]`},
		{"tuple<int, text>", `[1, "a"]`, `[1, "a"]`},
	} {
		typ := mustParse(t, c.typ)
		got, err := typ.EncodeText(c.text)
		require.NoError(t, err, c.typ)
		want, err := typ.EncodeJSON([]byte(c.json))
		require.NoError(t, err, c.typ)
		assert.Equal(t, want, got, c.typ)
	}
}

func TestEncodeTextSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ typ, text, want string }{
		{"int", "", `expected int, got an empty string`},
		{"boolean", " ", `expected boolean, got an empty string`},
		{"int", "x", `expected int, got a string`},
		{"int", "null", `expected int, got a string`},
		{"frozen<list<int>>", "null", `expected frozen<list<int>>, got null`},
		{"frozen<list<int>>", "1,2", `expected frozen<list<int>>, got a number`},
		{"ascii", "ä", `expected ascii`},
		{"text", "\xff", `expected text`},
	} {
		got, err := mustParse(t, c.typ).EncodeText(c.text)
		require.ErrorContains(t, err, c.want, c.typ)
		assert.Nil(t, got)
	}
}
