package quorum_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func column(name string, kind schema.ColumnKind, t *cqltype.Type) schema.Column {
	return schema.Column{Name: name, Type: t, Kind: kind}
}

var (
	text = &cqltype.Type{Kind: cqltype.Text}
	id   = column("id", schema.PartitionKey, text)
	name = column("name", schema.Regular, text)
	note = column("note", schema.Regular, text)
)

func long(x int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(x)) }
func life(s int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(s)) }

// found is an answer of one row of id, name and note, with the write times and lives of the
// latter two.
func found(cells ...[]byte) partition.Result {
	return partition.Result{Status: partition.Found, Rows: []partition.Row{cells}, Bytes: 99}
}

func TestCompare(t *testing.T) {
	key, kettle, red := []byte("7"), []byte("Kettle"), []byte("red")
	same := found(key, kettle, red, long(1), nil, long(2), nil)
	expiring := func(s int32) partition.Result { return found(key, kettle, red, long(1), life(s), long(2), nil) }
	missing := partition.Result{Status: partition.NotFound}
	large := partition.Result{Status: partition.TooLarge, Err: errors.New("large")}
	for what, c := range map[string]struct {
		answers []partition.Result
		want    quorum.Outcome
	}{
		"equal answers":                      {[]partition.Result{same, same}, quorum.Matched},
		"equal answers of three":             {[]partition.Result{same, same, same}, quorum.Matched},
		"an empty value is a value":          {[]partition.Result{found(key, []byte{}, red, long(1), nil, long(2), nil), found(key, []byte{}, red, long(1), nil, long(2), nil)}, quorum.Matched},
		"lives that end together":            {[]partition.Result{expiring(60), expiring(59)}, quorum.Matched},
		"lives that end apart":               {[]partition.Result{expiring(60), expiring(58)}, quorum.Mismatched},
		"a life and none":                    {[]partition.Result{expiring(1), same}, quorum.Mismatched},
		"a life of another type":             {[]partition.Result{expiring(1), found(key, kettle, red, long(1), []byte{1}, long(2), nil)}, quorum.Mismatched},
		"another value":                      {[]partition.Result{same, found(key, kettle, []byte("blue"), long(1), nil, long(2), nil)}, quorum.Mismatched},
		"the third has another value":        {[]partition.Result{same, same, found(key, kettle, []byte("blue"), long(1), nil, long(2), nil)}, quorum.Mismatched},
		"the same value written later":       {[]partition.Result{same, found(key, kettle, red, long(1), nil, long(3), nil)}, quorum.Mismatched},
		"a value that one lacks":             {[]partition.Result{same, found(key, kettle, nil, long(1), nil, nil, nil)}, quorum.Mismatched},
		"an empty value that one lacks":      {[]partition.Result{found(key, kettle, []byte{}, long(1), nil, long(2), nil), found(key, kettle, nil, long(1), nil, long(2), nil)}, quorum.Mismatched},
		"a row that one lacks":               {[]partition.Result{same, missing}, quorum.Mismatched},
		"a row that both lack":               {[]partition.Result{missing, missing}, quorum.Absent},
		"a value that both lack":             {[]partition.Result{found(key, kettle, nil, long(1), nil, nil, nil), found(key, kettle, nil, long(1), nil, nil, nil)}, quorum.Absent},
		"a difference beside what is absent": {[]partition.Result{found(key, kettle, nil, long(1), nil, nil, nil), found(key, kettle, nil, long(2), nil, nil, nil)}, quorum.Mismatched},
		"one more row":                       {[]partition.Result{same, {Status: partition.Found, Rows: []partition.Row{same.Rows[0], same.Rows[0]}}}, quorum.Mismatched},
		"one is too large":                   {[]partition.Result{large}, quorum.Size},
		"one of two is too large":            {[]partition.Result{same, large}, quorum.Size},
		"rows without write times":           {[]partition.Result{found(key, kettle, red), found(key, kettle, red)}, quorum.Mismatched},
		"a value that nobody wrote":          {[]partition.Result{found(key, kettle, red, nil, nil, long(2), nil), found(key, kettle, red, nil, nil, long(2), nil)}, quorum.Mismatched},
	} {
		t.Run(what, func(t *testing.T) {
			got, outcome := quorum.Compare(c.answers, []schema.Column{id, name, note})
			assert.Equal(t, c.want, outcome)
			if outcome != quorum.Matched {
				return
			}
			first := c.answers[0].Rows[0]
			want := partition.Result{Status: partition.Found, Rows: []partition.Row{first[:3]}, Bytes: len(first[0]) + len(first[1]) + len(first[2])}
			assert.Equal(t, want, got, "without write times, and without their bytes")
			assert.Len(t, first, 7, "the answers are not changed")
		})
	}
}

func TestReconcile(t *testing.T) {
	key, kettle, red, blue := []byte("7"), []byte("Kettle"), []byte("red"), []byte("blue")
	// at is a row whose second value was written at a time.
	at := func(colour []byte, written int64, life []byte) partition.Result {
		return found(key, kettle, colour, long(1), nil, long(written), life)
	}
	missing := partition.Result{Status: partition.NotFound}
	lacks := found(key, kettle, nil, long(1), nil, nil, nil)
	empty := found(key, nil, nil, nil, nil, nil, nil)
	failed := partition.Result{Status: partition.Failed, Err: errors.New("failed")}
	large := partition.Result{Status: partition.TooLarge, Err: errors.New("large")}
	for what, c := range map[string]struct {
		answers []partition.Result
		want    quorum.Outcome
		note    []byte // of the answer, if there is one
	}{
		"equal answers":                         {[]partition.Result{at(red, 2, nil), at(red, 2, nil)}, quorum.Matched, red},
		"the second is newer":                   {[]partition.Result{at(red, 2, nil), at(blue, 3, nil)}, quorum.Reconciled, blue},
		"the first is newer":                    {[]partition.Result{at(red, 4, nil), at(blue, 3, nil)}, quorum.Reconciled, red},
		"the second of three is newer":          {[]partition.Result{at(red, 2, nil), at(blue, 3, nil), at(red, 2, nil)}, quorum.Reconciled, blue},
		"written before 1970":                   {[]partition.Result{at(red, -5, nil), at(blue, -6, nil)}, quorum.Reconciled, red},
		"the same value written later":          {[]partition.Result{at(red, 2, nil), at(red, 3, nil)}, quorum.Reconciled, red},
		"the newer one expires":                 {[]partition.Result{at(red, 2, nil), at(blue, 3, life(5))}, quorum.Reconciled, blue},
		"an empty value is a value":             {[]partition.Result{at(red, 2, nil), at([]byte{}, 3, nil)}, quorum.Reconciled, []byte{}},
		"lives that end together":               {[]partition.Result{at(red, 2, life(60)), at(red, 2, life(59))}, quorum.Matched, red},
		"written together, lives end apart":     {[]partition.Result{at(red, 2, life(60)), at(red, 2, life(50))}, quorum.Mismatched, nil},
		"written together, one expires":         {[]partition.Result{at(red, 2, life(60)), at(red, 2, nil)}, quorum.Mismatched, nil},
		"written together, other values":        {[]partition.Result{at(red, 2, nil), at(blue, 2, nil)}, quorum.Mismatched, nil},
		"a value that one lacks":                {[]partition.Result{at(red, 2, nil), lacks}, quorum.Mismatched, nil},
		"a value that the first lacks":          {[]partition.Result{lacks, at(red, 2, nil)}, quorum.Mismatched, nil},
		"a value that the third lacks":          {[]partition.Result{at(red, 2, nil), at(blue, 3, nil), lacks}, quorum.Mismatched, nil},
		"a value that both lack":                {[]partition.Result{lacks, lacks}, quorum.Matched, nil},
		"a row that one lacks":                  {[]partition.Result{at(red, 2, nil), missing}, quorum.Mismatched, nil},
		"a row that both lack":                  {[]partition.Result{missing, missing}, quorum.Matched, nil},
		"a row that exists by its marker":       {[]partition.Result{empty, empty}, quorum.Absent, nil},
		"one is too large":                      {[]partition.Result{at(red, 2, nil), large}, quorum.Size, nil},
		"both have failed":                      {[]partition.Result{failed, failed}, quorum.Absent, nil},
		"a value that nobody wrote":             {[]partition.Result{found(key, kettle, red, long(1), nil, nil, nil), at(red, 2, nil)}, quorum.Mismatched, nil},
		"a write time without a value":          {[]partition.Result{found(key, kettle, nil, long(1), nil, long(2), nil), lacks}, quorum.Mismatched, nil},
		"a write time of another type":          {[]partition.Result{found(key, kettle, red, long(1), nil, []byte{1}, nil), at(red, 2, nil)}, quorum.Mismatched, nil},
		"rows without write times":              {[]partition.Result{found(key, kettle, red), found(key, kettle, red)}, quorum.Mismatched, nil},
		"a row without cells":                   {[]partition.Result{found(), found()}, quorum.Mismatched, nil},
		"one row has no write times":            {[]partition.Result{at(red, 2, nil), found(key, kettle, red)}, quorum.Mismatched, nil},
		"a difference in one column of several": {[]partition.Result{found(key, kettle, red, long(5), nil, long(2), nil), found(key, []byte("Pot"), blue, long(1), nil, long(3), nil)}, quorum.Reconciled, blue},
	} {
		t.Run(what, func(t *testing.T) {
			got, outcome := quorum.Reconcile(c.answers, []schema.Column{id, name, note})
			assert.Equal(t, c.want, outcome)
			if !outcome.Answered() {
				return
			}
			want := partition.Result{Status: c.answers[0].Status}
			if want.Status == partition.Found {
				want.Rows, want.Bytes = []partition.Row{{key, kettle, c.note}}, len(key)+len(kettle)+len(c.note)
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestComparable(t *testing.T) {
	of := func(k cqltype.Kind, frozen bool) schema.Column {
		return column("v", schema.Regular, &cqltype.Type{Kind: k, Frozen: frozen})
	}
	plain := func(columns ...schema.Column) *schema.Table { return schema.NewTable("ks", "t", "id", columns) }
	view := plain(id, name)
	view.View = true
	for what, c := range map[string]struct {
		table   *schema.Table
		columns []schema.Column
		want    bool
	}{
		"a value":                       {plain(id, name), []schema.Column{id, name}, true},
		"a value without its key":       {plain(id, name), []schema.Column{name}, true},
		"a table with a list, not read": {plain(id, name, of(cqltype.List, false)), []schema.Column{name}, true},
		"a frozen collection":           {plain(id, of(cqltype.Map, true)), []schema.Column{of(cqltype.Map, true)}, true},
		"a tuple":                       {plain(id, of(cqltype.Tuple, false)), []schema.Column{of(cqltype.Tuple, false)}, true},
		"a vector":                      {plain(id, of(cqltype.Vector, false)), []schema.Column{of(cqltype.Vector, false)}, true},
		"a key alone":                   {plain(id, name), []schema.Column{id}, false},
		"a list":                        {plain(id, of(cqltype.List, false)), []schema.Column{id, of(cqltype.List, false)}, false},
		"a set beside a value":          {plain(id, name, of(cqltype.Set, false)), []schema.Column{name, of(cqltype.Set, false)}, false},
		"a user-defined type":           {plain(id, of(cqltype.UDT, false)), []schema.Column{of(cqltype.UDT, false)}, false},
		"a counter":                     {plain(id, of(cqltype.Counter, false)), []schema.Column{of(cqltype.Counter, false)}, false},
		"a type that is not known":      {plain(id, of(cqltype.Custom, false)), []schema.Column{of(cqltype.Custom, false)}, false},
		"clustering columns":            {plain(id, column("c", schema.Clustering, text), name), []schema.Column{name}, false},
		"a static column":               {plain(id, column("c", schema.Clustering, text), column("s", schema.Static, text)), []schema.Column{column("s", schema.Static, text)}, false},
		"a view":                        {view, []schema.Column{name}, false},
	} {
		assert.Equal(t, c.want, quorum.Comparable(c.table, c.columns), what)
	}
	assert.Equal(t, []schema.Column{id, name}, quorum.Comparables([]schema.Column{id, of(cqltype.Set, false), name, of(cqltype.Counter, false)}))
}

func TestOutcomesHaveWords(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range quorum.Outcomes {
		assert.NotEmpty(t, o.String())
		assert.False(t, seen[o.String()], "%s", o)
		seen[o.String()] = true
	}
	assert.Empty(t, quorum.None.String())
	assert.Equal(t, 2, quorum.Of(3))
	assert.Equal(t, 3, quorum.Of(4))
	assert.Equal(t, 3, quorum.Of(5))
}
