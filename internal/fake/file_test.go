package fake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/fake"
)

func TestMistakesHaveFileLineAndKey(t *testing.T) {
	const table = "tables:\n  - name: t.rows\n    columns: {id: text, n: int, v: text, s: text}\n    clustering: [n]\n    static: [s]\n"
	for name, tc := range map[string]struct{ text, says string }{
		"nothing":                    {"", "data.yaml: tables: is empty"},
		"an unknown key":             {"tabels: []", `data.yaml:1:1: tabels: unknown key "tabels", did you mean "tables"?`},
		"a table without name":       {"tables:\n  - columns: {id: text}\n", "data.yaml:2:5: tables[0].name: is missing"},
		"a table twice":              {"tables:\n  - {name: t.a, columns: {id: text}}\n  - {name: t.a, columns: {id: text}}\n", "data.yaml:3:12: tables[1].name: t.a is listed twice"},
		"no columns":                 {"tables:\n  - name: t.a\n", "tables[0].columns: is missing"},
		"an unknown type":            {"tables:\n  - name: t.a\n    columns:\n      id: strng\n", "data.yaml:4:7: tables[0].columns.id: "},
		"a type that is no text":     {"tables:\n  - name: t.a\n    columns:\n      id: [text]\n", "data.yaml:4:7: tables[0].columns.id: is no CQL type"},
		"an unknown udt":             {"tables:\n  - name: t.a\n    columns:\n      id: frozen<address>\n", "no type t.address; list it under types"},
		"a type of itself":           {"types: [{name: t.x, fields: {x: frozen<x>}}]\ntables: [{name: t.a, columns: {id: int, x: frozen<x>}}]", "type t.x contains itself"},
		"a counter as key":           {"tables: [{name: t.a, columns: {id: counter}}]", "a counter may not be part of the primary key"},
		"an unknown key column":      {"tables: [{name: t.a, columns: {id: int}, partition_key: [ids]}]", `tables[0].partition_key[0]: no column "ids", did you mean "id"?`},
		"a column with two parts":    {"tables: [{name: t.a, columns: {id: int}, clustering: [id]}]", `tables[0].clustering[0]: column "id" has a part`},
		"an order that is none":      {"tables: [{name: t.a, columns: {id: int, n: int}, clustering: [n down]}]", "write a column, and asc or desc behind it"},
		"static without clustering":  {"tables: [{name: t.a, columns: {id: int, s: int}, static: [s]}]", "no static columns"},
		"a timeout of nothing":       {"tables: [{name: t.a, columns: {id: int}, timeout: 0s}]", "tables[0].timeout: must be above 0"},
		"a column that is none":      {table + "    rows:\n      - {id: a, n: 1, w: x}\n", `data.yaml:7:23: tables[0].rows[0].w: no column "w"`},
		"a value of another type":    {table + "    rows:\n      - {id: a, n: x}\n", "data.yaml:7:17: tables[0].rows[0].n: expected int, got a string"},
		"a number as text":           {table + "    rows:\n      - {id: 7, n: 1}\n", "write it in quotes"},
		"no partition key":           {table + "    rows:\n      - {n: 1}\n", `data.yaml:7:9: tables[0].rows[0]: has no value of "id"`},
		"no clustering value":        {table + "    rows:\n      - {id: a, v: x}\n", `has no value of "n", which is a clustering column`},
		"a row twice":                {table + "    rows:\n      - {id: a, n: 1}\n      - {id: a, n: 1}\n", "data.yaml:8:9: tables[0].rows[1]: has the primary key of tables[0].rows[0]"},
		"two static values":          {table + "    rows:\n      - {id: a, n: 1, s: x}\n      - {id: a, n: 2, s: y}\n", `another value of the static column "s"`},
		"writetime of a key":         {table + "    rows:\n      - {id: a, n: 1, writetime(n): 5}\n", `there is no writetime of "n"`},
		"writetime that is no time":  {table + "    rows:\n      - {id: a, n: 1, writetime(v): now}\n", "is no whole number"},
		"an unknown status":          {table + "    faults:\n      - {status: TIMEOUT}\n", `data.yaml:7:18: tables[0].faults[0].status: no status "TIMEOUT"`},
		"a fault of nothing":         {table + "    faults:\n      - {keys: [a]}\n", "data.yaml:7:9: tables[0].faults[0]: a fault has a delay, a status or refuse"},
		"a key of another type":      {table + "    faults:\n      - {keys: [[a, x]], status: SHED}\n", "data.yaml:7:17: tables[0].faults[0].keys[0]: "},
		"a delay without unit":       {table + "    faults:\n      - {delay: 40}\n", `"40" has no unit`},
		"no lookups":                 {table + "    faults:\n      - {delay: 1s, count: 0}\n", "faults[0].count: must be 1 or more"},
		"a probability of nothing":   {table + "    faults:\n      - {delay: 1s, probability: 0%}\n", "above 0%"},
		"text that is no YAML":       {"tables: [", "data.yaml"},
		"a key twice in one mapping": {"tables: [{name: t.a, name: t.b}]", "data.yaml:1:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fake.Parse([]byte(tc.text), "data.yaml")
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.says)
		})
	}
}

func TestEveryMistakeIsShown(t *testing.T) {
	_, err := fake.Parse([]byte("tables:\n  - name: t.a\n    columns: {id: int}\n    rows: [{id: x}, {id: y}]\n    faults: [{status: NO}]\n"), "data.yaml")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "rows[0].id")
	assert.Contains(t, err.Error(), "rows[1].id")
	assert.Contains(t, err.Error(), "faults[0].status")
}

// The values are written in YAML's own forms, in those of SELECT JSON (which has no infinity),
// and merged from an anchor.
func TestValuesOfYAML(t *testing.T) {
	f := serve(t, `
tables:
  - name: t.rows
    columns:
      id: bigint
      b: blob
      d: double
      day: date
      flag: boolean
      m: map<int, frozen<list<text>>>
      t: text
      c: counter
      "Mixed": text
      big: varint
      exact: decimal
    rows:
      - &base {id: 9007199254740993, b: 0xcafe, d: .inf, day: 2026-01-01, flag: true, m: {1: [a, b]}, t: "true", c: 7}
      - {<<: *base, id: 2, t: null, '"Mixed"': x, big: 123456789012345678901234567890, exact: 1.10}
      - {"id":3,"Mixed":"y","t":"line\nbreak"}
`)
	a := f.ask(t, "t/rows", `{"keys": [9007199254740993]}`)
	assert.JSONEq(t, `{"id":9007199254740993,"b":"0xcafe","d":null,"day":"2026-01-01","flag":true,"m":{"1":["a","b"]},"t":"true","c":7,"\"Mixed\"":null,"big":null,"exact":null}`,
		a.rows()[0])
	assert.Contains(t, a.rows()[0], `"id":9007199254740993`)
	a = f.ask(t, "t/rows", `{"keys": [2], "columns": ["b", "t", "Mixed", "big", "exact"]}`)
	assert.Equal(t, []string{`{"b":"0xcafe","t":null,"\"Mixed\"":"x","big":123456789012345678901234567890,"exact":1.10}`}, a.rows()[:1])
	a = f.ask(t, "t/rows", `{"keys": [3], "columns": ["t", "Mixed"]}`)
	assert.Equal(t, []string{`{"t":"line\nbreak","\"Mixed\"":"y"}`}, a.rows()[:1])
}
