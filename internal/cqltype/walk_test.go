package cqltype

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder records what it visits.
type recorder struct {
	calls []string
	depth int
}

func (r *recorder) add(format string, args ...any) {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) Null(t *Type)             { r.add("null %s", t) }
func (r *recorder) Empty(t *Type)            { r.add("empty %s", t) }
func (r *recorder) Bool(t *Type, v bool)     { r.add("%s %t", t, v) }
func (r *recorder) Int(t *Type, v int64)     { r.add("%s %d", t, v) }
func (r *recorder) Float(t *Type, v float64) { r.add("%s %g", t, v) }
func (r *recorder) Text(t *Type, v []byte)   { r.add("%s %s", t, v) }
func (r *recorder) Bytes(t *Type, v []byte)  { r.add("%s %s", t, hex.EncodeToString(v)) }
func (r *recorder) Begin(t *Type, n int)     { r.depth++; r.add("begin %s %d", t, n) }
func (r *recorder) End(t *Type)              { r.depth--; r.add("end %s", t) }
func (r *recorder) Decimal(t *Type, unscaled []byte, scale int32) {
	r.add("%s %x %d", t, unscaled, scale)
}

func (r *recorder) Duration(t *Type, months, days int32, nanos int64) {
	r.add("%s %d %d %d", t, months, days, nanos)
}

func TestWalkKeepsTheIdentityOfEveryType(t *testing.T) {
	for _, c := range []struct {
		typ, json string
		want      []string
	}{
		{"text", `"ä"`, []string{"text ä"}},
		{"ascii", `"a"`, []string{"ascii a"}},
		{"blob", `"0x00ff"`, []string{"blob 00ff"}},
		{"boolean", `true`, []string{"boolean true"}},
		{"tinyint", `-1`, []string{"tinyint -1"}},
		{"smallint", `300`, []string{"smallint 300"}},
		{"int", `-70000`, []string{"int -70000"}},
		{"bigint", `9007199254740993`, []string{"bigint 9007199254740993"}},
		{"varint", `-256`, []string{"varint ff00"}},
		{"decimal", `"-1.28"`, []string{"decimal 80 2"}},
		{"float", `0.1`, []string{"float 0.10000000149011612"}},
		{"double", `0.1`, []string{"double 0.1"}},
		{"date", `"1969-12-31"`, []string{"date -1"}},
		{"time", `"00:00:01"`, []string{"time 1000000000"}},
		{"timestamp", `"1970-01-01T00:00:01Z"`, []string{"timestamp 1000"}},
		{"duration", `"-1mo2d3ns"`, []string{"duration -1 -2 -3"}},
		{"inet", `"10.0.0.1"`, []string{"inet 0a000001"}},
		{"uuid", `"550e8400-e29b-41d4-a716-446655440000"`, []string{"uuid 550e8400e29b41d4a716446655440000"}},
		{"int", `""`, []string{"empty int"}},
		{"text", `""`, []string{"text "}},
		{"list<int>", `[1, 2]`, []string{"begin list<int> 2", "int 1", "int 2", "end list<int>"}},
		{"set<int>", `[]`, []string{"begin set<int> 0", "end set<int>"}},
		{"map<text, int>", `{"a": 1}`, []string{"begin map<text, int> 2", "text a", "int 1", "end map<text, int>"}},
		{"tuple<int, text>", `[null, "a"]`, []string{"begin tuple<int, text> 2", "null int", "text a", "end tuple<int, text>"}},
		{"vector<int, 2>", `[1, 2]`, []string{"begin vector<int, 2> 2", "int 1", "int 2", "end vector<int, 2>"}},
		{"address", `{"zip": 1}`, []string{"begin address 3", "null text", "int 1", "null frozen<set<text>>", "end address"}},
	} {
		typ := mustParse(t, c.typ)
		cell, err := typ.EncodeJSON([]byte(c.json))
		require.NoError(t, err, c.typ)
		require.NoError(t, typ.Validate(cell), c.typ)
		var r recorder
		require.NoError(t, typ.Walk(cell, &r), c.typ)
		assert.Equal(t, c.want, r.calls, c.typ)
	}
	var r recorder
	require.NoError(t, (&Type{Kind: Int}).Walk(nil, &r))
	assert.Equal(t, []string{"null int"}, r.calls)
}

func TestWalkAcceptsWhatAppendJSONAccepts(t *testing.T) {
	cells, _ := goldens(t)
	for _, g := range cells {
		typ, cell := mustParse(t, g.Type), g.bytes(t)
		var r recorder
		walked := typ.Walk(cell, &r)
		if walked == nil {
			assert.Zero(t, r.depth, "every Begin has its End")
		}
		_, shown := typ.AppendJSON(nil, cell)
		if walked != nil && shown == nil || walked == nil && shown != nil && !typ.contains(Time) && typ.Kind != Map {
			t.Errorf("%s %x: Walk says %v, AppendJSON %v", g.Type, cell, walked, shown)
		}
	}
}

// sink is a Visitor that keeps nothing.
type sink struct{ pieces int }

func (s *sink) Null(*Type)                          { s.pieces++ }
func (s *sink) Empty(*Type)                         { s.pieces++ }
func (s *sink) Bool(*Type, bool)                    { s.pieces++ }
func (s *sink) Int(*Type, int64)                    { s.pieces++ }
func (s *sink) Float(*Type, float64)                { s.pieces++ }
func (s *sink) Text(*Type, []byte)                  { s.pieces++ }
func (s *sink) Bytes(*Type, []byte)                 { s.pieces++ }
func (s *sink) Decimal(*Type, []byte, int32)        { s.pieces++ }
func (s *sink) Duration(*Type, int32, int32, int64) { s.pieces++ }
func (s *sink) Begin(*Type, int)                    { s.pieces++ }
func (s *sink) End(*Type)                           { s.pieces++ }

// row is a row of every benchmark value, types and cells.
func row(tb testing.TB) (types []*Type, cells [][]byte) {
	for name, json := range benchmarkValues {
		typ := mustParse(tb, name)
		cell, err := typ.EncodeJSON([]byte(json))
		require.NoError(tb, err)
		types, cells = append(types, typ), append(cells, cell)
	}
	return types, cells
}

func decodeRow(tb testing.TB, types []*Type, cells [][]byte, v Visitor) {
	for i, typ := range types {
		if err := typ.Walk(cells[i], v); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestDecodingARowDoesNotAllocate(t *testing.T) {
	types, cells := row(t)
	v := &sink{}
	assert.Zero(t, testing.AllocsPerRun(100, func() { decodeRow(t, types, cells, v) }))
	assert.Greater(t, v.pieces, 100*len(cells))
}

func BenchmarkWalkRow(b *testing.B) {
	types, cells := row(b)
	v := &sink{}
	b.ReportAllocs()
	for b.Loop() {
		decodeRow(b, types, cells, v)
	}
}
