package cqltype

import (
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEncodeJSONSaysWhatCame(t *testing.T) {
	for what, c := range map[string]struct{ typ, json, want string }{
		"a string for a number":        {"bigint", `"x"`, `expected bigint, got a string`},
		"a fraction for an integer":    {"int", `1.5`, `expected int, got a number`},
		"a number out of range":        {"tinyint", `200`, `expected tinyint, got a number: out of range`},
		"a number for text":            {"text", `7`, `expected text, got a number`},
		"a bool for a uuid":            {"uuid", `true`, `expected uuid, got a boolean`},
		"an array for text":            {"text", `["a"]`, `expected text, got an array`},
		"an object for a list":         {"list<int>", `{}`, `expected list<int>, got an object`},
		"a deep element":               {"list<frozen<list<int>>>", `[[1], [2, "y"]]`, `element 1: element 1: expected int, got a string`},
		"a map value":                  {"map<text, int>", `{"k": true}`, `entry 0: expected int, got a boolean`},
		"a map key":                    {"map<int, int>", `{"k": 1}`, `entry 0: key: expected int, got a string`},
		"a null in a list":             {"list<int>", `[null]`, `element 0: null is not allowed here`},
		"a null in a map":              {"map<int, int>", `{"1": null}`, `null is not allowed here`},
		"an unknown field":             {"address", `{"nope": 1}`, `entry 0: the type address has no such field`},
		"a tuple too short":            {"tuple<int, int>", `[1]`, `a tuple<int, int> has 2 elements, got 1`},
		"a tuple too long":             {"tuple<int>", `[1, 2]`, `element 1: a tuple<int> has 1 elements`},
		"a vector too short":           {"vector<float, 2>", `[1]`, `a vector<float, 2> has 2 elements, got 1`},
		"a vector too long":            {"vector<float, 1>", `[1, 2]`, `element 1: a vector<float, 1> has 1 elements`},
		"a vector with an empty value": {"vector<float, 1>", `[""]`, `the empty value, which a vector cannot hold`},
		"a blob without 0x":            {"blob", `"00"`, `begin with 0x`},
		"an odd blob":                  {"blob", `"0x0"`, `not pairs of hexadecimal digits`},
		"a host name":                  {"inet", `"localhost"`, `expected inet, got a string`},
		"an address with a zone":       {"inet", `"fe80::1%eth0"`, `expected inet`},
		"a counter":                    {"counter", `1`, `a counter has no value of its own`},
		"a UUID of another version":    {"timeuuid", `"550e8400-e29b-41d4-a716-446655440000"`, `a UUID of version 4 instead of 1`},
		"February 30":                  {"timestamp", `"2011-02-30"`, `expected timestamp, got a string`},
		"a time after midnight":        {"time", `"24:00:00"`, `expected time`},
		"a date before all dates":      {"date", `"-5877641-06-22"`, `dates are from -5877641-06-23`},
		"a long year without a sign":   {"date", `"10000-01-01"`, `needs a sign`},
		"a duration given twice":       {"duration", `"1h1h"`, `unit h given twice or out of order`},
		"a varint of many digits":      {"varint", `"` + strings.Repeat("1", 200_000) + `"`, `more than 160000 digits`},
		"a decimal of a huge scale":    {"decimal", `"1e-9999999999"`, `out of range`},
		"a decimal beyond a double":    {"decimal", `1e999`, `write it as a string`},
		"text with half a character":   {"text", `"\ud800"`, `a \u escape is no character`},
		"text with a wrong pair":       {"text", `"\ud800\u0041"`, `a \u escape is no character`},
		"text that is no UTF-8":        {"text", "\"\xff\"", `a string is not UTF-8`},
		"ascii over 127":               {"ascii", `"ä"`, `expected ascii, got a string`},
		"a string of other JSON":       {"list<int>", `"\"[1]\""`, `expected list<int>, got a string`},
		"a string of more than JSON":   {"list<int>", `"[1] x"`, `unexpected 'x' after the value`},
		"a zone with a stray colon":    {"timestamp", `"2011-02-03 04:05+013:0"`, `expected timestamp`},
		"a string of broken JSON":      {"list<int>", `"[1"`, `expected , or ] in an array`},
	} {
		got, err := mustParse(t, c.typ).EncodeJSON([]byte(c.json))
		require.ErrorContains(t, err, c.want, what)
		assert.Nil(t, got, what)
		assert.Less(t, len(err.Error()), 250, what)
	}
}

func TestBrokenJSONIsRefusedWithItsPlace(t *testing.T) {
	for json, want := range map[string]string{
		"":                                    "at byte 0: unexpected end",
		"  ":                                  "at byte 2: unexpected end",
		"tru":                                 "unexpected 't'",
		"nul":                                 "unexpected 'n'",
		"[1":                                  "at byte 2: expected , or ]",
		"[1 2]":                               "expected , or ]",
		"[1,]":                                "unexpected ']'",
		"[1] x":                               "at byte 4: unexpected 'x' after the value",
		"[1]]":                                "unexpected ']' after the value",
		"[01]":                                "may not begin with 0",
		"[-]":                                 "a number needs a digit",
		"[1.]":                                "a fraction needs a digit",
		"[1e+]":                               "an exponent needs a digit",
		"[+1]":                                "unexpected '+'",
		`["a]`:                                "a string is not closed",
		`["\`:                                 "a string is not closed",
		`["\x"]`:                              "an unknown escape",
		`["\u12g4"]`:                          `a \u escape is no character`,
		"[\"\n\"]":                            "a control character in a string",
		"[" + strings.Repeat("1", 1001) + "]": "write it as a string",
	} {
		_, err := mustParse(t, "list<varint>").EncodeJSON([]byte(json))
		require.ErrorContains(t, err, want, json)
		require.ErrorContains(t, err, "invalid JSON at byte ", json)
	}
	for json, want := range map[string]string{
		`{1: 2}`:    "expected a name in an object",
		`{"a" 2}`:   "expected : after a name",
		`{"a": 2`:   "expected , or }",
		`{"a": 2,}`: "expected a name in an object",
		`{"a": 2]`:  "expected , or }",
	} {
		_, err := mustParse(t, "map<text, int>").EncodeJSON([]byte(json))
		require.ErrorContains(t, err, want, json)
	}
}

func TestLongNumbers(t *testing.T) {
	for _, n := range []int{999, 1000, 1001, 2002, 160_000} {
		digits := "7" + strings.Repeat("1234567890", n/10+1)[:n-1]
		want, ok := new(big.Int).SetString(digits, 10)
		require.True(t, ok)
		for sign, want := range map[string]*big.Int{"": want, "+": want, "-": new(big.Int).Neg(want)} {
			got, err := mustParse(t, "varint").EncodeJSON([]byte(`"` + sign + digits + `"`))
			require.NoError(t, err)
			require.Zero(t, want.Cmp(bigInt(got)), "%s%d digits", sign, n)
		}
	}
}

func TestNullIsNoCell(t *testing.T) {
	got, err := mustParse(t, "int").EncodeJSON([]byte(" null "))
	require.NoError(t, err)
	assert.Nil(t, got)
	got, err = mustParse(t, "text").EncodeJSON([]byte(`""`))
	require.NoError(t, err)
	assert.NotNil(t, got)
	assert.Empty(t, got)
}

func TestSurrogatePairsAreOneCharacter(t *testing.T) {
	got, err := mustParse(t, "text").EncodeJSON([]byte(`"\ud83d\ude00\u00E4\/"`))
	require.NoError(t, err)
	assert.Equal(t, "😀ä/", string(got))
}

// TestValuesReadBack encodes what AppendJSON wrote and wants the same JSON
// again.
func TestValuesReadBack(t *testing.T) {
	cells, _ := goldens(t)
	n := 0
	for _, g := range cells {
		typ, cell := mustParse(t, g.Type), g.bytes(t)
		if !g.Valid || !readsBack(typ) {
			continue
		}
		shown, err := typ.AppendJSON(nil, cell)
		if err != nil {
			continue
		}
		got, err := typ.EncodeJSON(shown)
		if err != nil {
			continue // NaN and the like: TestEncodeJSONIsCassandras knows which
		}
		n++
		again, err := typ.AppendJSON(nil, got)
		require.NoError(t, err)
		require.Equal(t, shown, again, "%s %s", g.Type, shown)
	}
	assert.Greater(t, n, 1000)
}

// readsBack reports whether values of a type survive their JSON. A decimal
// passes through a double, a timestamp loses its era and so its place in a set,
// the empty boolean becomes false, and counters cannot be given.
func readsBack(t *Type) bool {
	return !t.contains(Decimal) && !t.contains(Timestamp) && !t.contains(Boolean) && !t.contains(Counter)
}

func TestCalendarAgreesWithPackageTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int32Range(-4_000_000, 4_000_000).Draw(t, "days")
		year, month, day := civil(int64(days))
		want := time.Unix(int64(days)*86400, 0).UTC()
		assert.Equal(t, want, time.Date(int(year), time.Month(month), day, 0, 0, 0, 0, time.UTC))
		assert.Equal(t, int64(days), daysOf(year, month, day))
		assert.Equal(t, want.AddDate(0, 1, -want.Day()).Day(), daysIn(year, month))
	})
}

func TestVintsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		b := appendUvint(nil, v)
		got, used := uvint(b)
		assert.Equal(t, v, got)
		assert.Equal(t, len(b), used)
		_, used = uvint(b[:len(b)-1])
		assert.Zero(t, used, "a vint cut short is none")
	})
}

// TestSetsComeInCassandrasOrder shuffles elements that Cassandra's comparators
// sorted.
func TestSetsComeInCassandrasOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	_, inputs := goldens(t)
	n := 0
	for _, g := range inputs {
		typ := mustParse(t, g.Type)
		if typ.Kind != Set && typ.Kind != Map || g.Cell == nil {
			continue
		}
		var entries []entry
		require.NoError(t, typ.each(g.bytes(t), func(i int, _ *Type, c []byte) error {
			if typ.Kind == Map && i&1 == 1 {
				entries[len(entries)-1].value = c
			} else {
				entries = append(entries, entry{key: c})
			}
			return nil
		}))
		r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		got := appendEntries(nil, typ.sorted(entries), typ.Kind == Map)
		assert.Equal(t, *g.Cell, hex.EncodeToString(got), g.Type)
		n++
	}
	assert.Greater(t, n, 300)
}

func TestCompareIsAnOrder(t *testing.T) {
	cells, _ := goldens(t)
	byType := map[string][][]byte{}
	for _, g := range cells {
		if g.Valid && g.JSON != nil {
			byType[g.Type] = append(byType[g.Type], g.bytes(t))
		}
	}
	for name, cells := range byType {
		typ := mustParse(t, name)
		sorted := slices.SortedFunc(slices.Values(cells), typ.Compare)
		for i := range sorted {
			for j := range i {
				require.LessOrEqual(t, typ.Compare(sorted[j], sorted[i]), 0, "%s %x %x", name, sorted[j], sorted[i])
				require.GreaterOrEqual(t, typ.Compare(sorted[i], sorted[j]), 0, "%s %x %x", name, sorted[i], sorted[j])
			}
		}
	}
}

// TestHugeDecimalsCompareAtOnce uses scales too far apart to be made equal.
func TestHugeDecimalsCompareAtOnce(t *testing.T) {
	got, err := mustParse(t, "set<decimal>").EncodeJSON([]byte(
		`["1E+2147483647", "-1E+2147483647", "1E-2147483647", "0", "0E+2147483647", "1.0", "1.00", "1.01"]`))
	require.NoError(t, err)
	shown, err := mustParse(t, "set<decimal>").AppendText(nil, got)
	require.NoError(t, err)
	assert.Equal(t, "{-1E+2147483647, 0, 1E-2147483647, 1.0, 1.01, 1E+2147483647}", string(shown))
}
