package cqltype

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	singleKey      = []*Type{{Kind: Text}}
	singleName     = []string{"id"}
	compositeTypes = []*Type{{Kind: Text}, {Kind: Int}}
	compositeNames = []string{"user", "Day"}
	sevenA         = [][]byte{[]byte("a"), {0, 0, 0, 7}}
)

func TestPartitionKeyFromJSON(t *testing.T) {
	got, err := KeyFromJSON(singleKey, singleName, len(singleKey), []byte(`"a"`))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("a")}, got)
	for _, json := range []string{
		`["a", 7]`, `["a","7"]`, `{"user": "a", "\"Day\"": 7}`, `{"\"Day\"": 7, "USER": "a"}`, `{"user": "a", "Day": 7}`,
	} {
		got, err := KeyFromJSON(compositeTypes, compositeNames, len(compositeTypes), []byte(json))
		require.NoError(t, err, json)
		assert.Equal(t, sevenA, got, json)
	}
	list := []*Type{{Kind: List, Frozen: true, Elems: []*Type{{Kind: Int}}}}
	got, err = KeyFromJSON(list, singleName, len(list), []byte(`[1]`))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{{0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1}}, got)
}

func TestPartitionKeyFromJSONNamesTheColumn(t *testing.T) {
	for json, want := range map[string]string{
		`7`:           `column "id": expected text, got a number`,
		`null`:        `column "id": a column of the key may not be null`,
		`["a"]`:       `column "id": expected text, got an array`,
		`{"id": "a"}`: `column "id": expected text, got an object`,
		`"a" "b"`:     `after the value`,
		``:            `unexpected end`,
	} {
		got, err := KeyFromJSON(singleKey, singleName, len(singleKey), []byte(json))
		require.ErrorContains(t, err, want, json)
		assert.Nil(t, got)
	}
	for json, want := range map[string]string{
		`"a"`:                        `expected an array [user, Day] or an object by name, got a string`,
		`null`:                       `got null`,
		`[]`:                         `column "user": a partition key of another form: missing, got 0 of 2 values`,
		`["a"]`:                      `column "Day": a partition key of another form: missing, got 1 of 2 values`,
		`["a", 7, 8]`:                `more than the 2 columns user, Day`,
		`["a", "x"]`:                 `column "Day": expected int, got a string`,
		`["a", null]`:                `column "Day": a column of the key may not be null`,
		`["a", 7] x`:                 `after the value`,
		`["a" 7]`:                    `expected , or ] in an array`,
		`{"user": "a"}`:              `column "Day": a partition key of another form: missing`,
		`{}`:                         `column "user": a partition key of another form: missing`,
		`{"user": "a", "x": 1}`:      `a partition key of another form: a name that is not in the key (user, Day)`,
		`{"user": "a", "user": "b"}`: `column "user": given twice`,
		`{"user" "a"}`:               `expected : after the name`,
		`{"user": "a" 1}`:            `expected , or } in an object`,
		`{7: 1}`:                     `expected the name of a column`,
		`{"user": "a",}`:             `expected the name of a column`,
	} {
		got, err := KeyFromJSON(compositeTypes, compositeNames, len(compositeTypes), []byte(json))
		require.ErrorContains(t, err, want, json)
		assert.Nil(t, got)
	}
}

func TestPartitionKeyFromText(t *testing.T) {
	got, err := PartitionKeyFromText(singleKey, singleName, `a:7\:["x"`)
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte(`a:7\:["x"`)}, got, "a key of one column is its value")
	for _, s := range []string{`a:7`, `["a", 7]`, ` {"user": "a", "Day": 7}`, `"a":7`, `"a":"7"`, `a: 7`} {
		got, err := PartitionKeyFromText(compositeTypes, compositeNames, s)
		require.NoError(t, err, s)
		assert.Equal(t, sevenA, got, s)
	}
	for s, want := range map[string]string{
		`a\:b:7`:       "a:b",
		`a\\:7`:        `a\`,
		`a\b:7`:        `a\b`,
		`"a:b":7`:      "a:b",
		`"\u0061\"":7`: `a"`,
		`:7`:           "",
		`"[a]":7`:      "[a]",
		`it "is" so:7`: `it "is" so`,
	} {
		got, err := PartitionKeyFromText(compositeTypes, compositeNames, s)
		require.NoError(t, err, s)
		assert.Equal(t, want, string(got[0]), s)
	}
	clocks := []*Type{{Kind: Time}, {Kind: Inet}}
	got, err = PartitionKeyFromText(clocks, compositeNames, `"10:30:00":"::1"`)
	require.NoError(t, err)
	assert.Len(t, got[1], 16)
}

func TestPartitionKeyFromTextSaysWhatIsWrong(t *testing.T) {
	for s, want := range map[string]string{
		`a`:      `expected 2 values with colons between them (user:Day), got 1; write a colon within a value as \:`,
		`a:7:8`:  `got 3`,
		`a:x`:    `column "Day": expected int, got a string`,
		`a:`:     `column "Day": expected int, got an empty string`,
		`"a:7`:   `a string is not closed`,
		`"a"7:8`: `a quoted value is followed by something else than a colon`,
		`["a"]`:  `column "Day": a partition key of another form: missing`,
	} {
		got, err := PartitionKeyFromText(compositeTypes, compositeNames, s)
		require.ErrorContains(t, err, want, s)
		assert.Nil(t, got)
	}
	_, err := PartitionKeyFromText([]*Type{{Kind: Int}}, singleName, "x")
	require.ErrorContains(t, err, `column "id": expected int, got a string`)
	_, err = PartitionKeyFromText(compositeTypes, compositeNames, "a")
	require.ErrorIs(t, err, ErrKeyForm)
}

func TestKeyFromJSONGoesOnWithClusteringColumns(t *testing.T) {
	one, oneNames := []*Type{{Kind: Text}, {Kind: Int}, {Kind: Text}}, []string{"user", "Day", "kind"}
	a, day, kind := []byte("a"), []byte{0, 0, 0, 7}, []byte("x")
	for json, want := range map[string][][]byte{
		`"a"`: {a}, `["a"]`: {a}, `["a", 7]`: {a, day}, `["a", 7, "x"]`: {a, day, kind},
		`{"user": "a"}`: {a}, `{"kind": "x", "user": "a", "Day": 7}`: {a, day, kind},
	} {
		got, err := KeyFromJSON(one, oneNames, 1, []byte(json))
		require.NoError(t, err, json)
		assert.Equal(t, want, got, json)
	}
	for json, want := range map[string]string{
		`[]`:                         `column "user": a partition key of another form: missing, got 0 of 1 values`,
		`["a", 7, "x", 1]`:           `more than the 3 columns user, Day, kind`,
		`{"user": "a", "kind": "x"}`: `column "Day": a partition key of another form: missing before "kind"`,
		`{"Day": 7}`:                 `column "user": a partition key of another form: missing`,
		`["a", null]`:                `column "Day": a column of the key may not be null`,
		`["a", "x"]`:                 `column "Day": expected int, got a string`,
		`{"user": "a", "price": 1}`:  `a name that is not in the key (user, Day, kind)`,
		`7`:                          `column "user": expected text, got a number`,
	} {
		_, err := KeyFromJSON(one, oneNames, 1, []byte(json))
		require.ErrorContains(t, err, want, json)
	}
	ints := &Type{Kind: List, Frozen: true, Elems: []*Type{{Kind: Int}}}
	table := &Type{Kind: Map, Frozen: true, Elems: []*Type{{Kind: Text}, {Kind: Int}}}
	for _, test := range []struct {
		typ    *Type
		json   string
		values int
	}{{ints, `[1]`, 1}, {ints, `{"user": [1], "Day": 7}`, 2}, {table, `{"Day": 7}`, 1}, {table, `[{"Day": 7}, 7]`, 2}} {
		got, err := KeyFromJSON([]*Type{test.typ, {Kind: Int}}, oneNames, 1, []byte(test.json))
		require.NoError(t, err, test.json)
		assert.Len(t, got, test.values, "%s: an array or object that is a value of the column stands for the partition", test.json)
	}
}

func TestKeyFromTextGoesOnWithClusteringColumns(t *testing.T) {
	types, names := []*Type{{Kind: Text}, {Kind: Int}, {Kind: Text}}, []string{"user", "Day", "kind"}
	a, day := []byte("a"), []byte{0, 0, 0, 7}
	for _, test := range []struct {
		partitionKey int
		text         string
		want         [][]byte
	}{
		{1, `a`, [][]byte{a}}, {1, `a/7`, [][]byte{a, day}}, {1, `a/7/x:y`, [][]byte{a, day, []byte("x:y")}},
		{1, `a\/b/7`, [][]byte{[]byte("a/b"), day}}, {1, `"a/b"/7/"/"`, [][]byte{[]byte("a/b"), day, []byte("/")}},
		{1, `a:b`, [][]byte{[]byte("a:b")}}, {1, `["a", 7]`, [][]byte{a, day}}, {1, `{"user": "a"}`, [][]byte{a}},
		{2, `a:7`, [][]byte{a, day}}, {2, `a:7/x`, [][]byte{a, day, []byte("x")}}, {2, `"a":7/\/:`, [][]byte{a, day, []byte("/:")}},
	} {
		got, err := KeyFromText(types, names, test.partitionKey, test.text)
		require.NoError(t, err, test.text)
		assert.Equal(t, test.want, got, test.text)
	}
	for text, want := range map[string]string{
		`a/7/x/y`: `more than the 2 clustering columns Day/kind`, `a/x`: `column "Day"`, `"a"x`: `followed by something else than a slash`, `a/`: `column "Day"`,
	} {
		_, err := KeyFromText(types, names, 1, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := KeyFromText(types, names, 2, `a/7`)
	require.ErrorContains(t, err, "expected 2 values with colons between them (user:Day), got 1")
}
