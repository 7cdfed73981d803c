package lookup_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// events is shop.events with three clustering columns, of which c may not be read.
func events() *lookup.Table {
	column := func(name string, kind schema.ColumnKind) schema.Column {
		return schema.Column{Name: name, Type: text, Kind: kind}
	}
	return &lookup.Table{
		Schema: schema.NewTable("shop", "events", "id", []schema.Column{column("id", schema.PartitionKey),
			column("a", schema.Clustering), column("b", schema.Clustering), column("c", schema.Clustering), column("v", schema.Regular)}),
		Settings: &lookup.Settings{Columns: []string{"id", "a", "b", "v"}, MaxKeys: 10, MaxRowsPerKey: 10, Consistency: "LOCAL_ONE",
			Consistencies: []partition.Level{"LOCAL_QUORUM"}},
	}
}

func on(column string, o partition.Operator, values ...string) lookup.Condition {
	c := lookup.Condition{Column: column, Operator: o}
	for _, v := range values {
		c.Values = append(c.Values, []byte(v))
	}
	return c
}

func TestConditionsFollowTheRulesOfCQL(t *testing.T) {
	table := events()
	for name, test := range map[string]struct {
		conditions []lookup.Condition
		field      string // at fault, empty for none
	}{
		"none":                         {nil, ""},
		"a value":                      {[]lookup.Condition{on("a", partition.Equal, "1")}, ""},
		"a range":                      {[]lookup.Condition{on("b", partition.Less, "1"), on("b", partition.GreaterOrEqual, "0")}, ""},
		"a value, then a range":        {[]lookup.Condition{on("b", partition.Greater, "1"), on("a", partition.Equal, "1")}, ""},
		"a list, then a range":         {[]lookup.Condition{on("a", partition.In, "1", "2"), on("b", partition.Less, "1")}, ""},
		"a range before equality":      {[]lookup.Condition{on("a", partition.Less, "1"), on("b", partition.Equal, "1")}, "where.b"},
		"no such column":               {[]lookup.Condition{on("x", partition.Equal, "1")}, "where.x"},
		"a regular column":             {[]lookup.Condition{on("v", partition.Equal, "1")}, "where.v"},
		"a column of the partition":    {[]lookup.Condition{on("id", partition.Equal, "1")}, "where.id"},
		"a column that is not allowed": {[]lookup.Condition{on("c", partition.Equal, "1")}, "where.c"},
		"two values":                   {[]lookup.Condition{on("a", partition.Equal, "1"), on("a", partition.Equal, "2")}, "where.a"},
		"a value and a bound":          {[]lookup.Condition{on("a", partition.Equal, "1"), on("a", partition.Less, "2")}, "where.a"},
		"a list and a bound":           {[]lookup.Condition{on("a", partition.In, "1"), on("a", partition.Less, "2")}, "where.a"},
		"two lower bounds":             {[]lookup.Condition{on("a", partition.Greater, "1"), on("a", partition.GreaterOrEqual, "2")}, "where.a"},
		"two upper bounds":             {[]lookup.Condition{on("a", partition.Less, "1"), on("a", partition.LessOrEqual, "2")}, "where.a"},
	} {
		s, err := table.Slice(test.conditions, false)
		if test.field == "" {
			require.NoError(t, err, name)
			assert.Equal(t, len(test.conditions) == 0, s == nil, name)
			continue
		}
		refused := &lookup.Error{}
		require.ErrorAs(t, err, &refused, name)
		assert.Equal(t, test.field, refused.Field, name)
		kind := lookup.ErrInvalid
		if test.field == "where.c" {
			kind = lookup.ErrForbidden
		}
		require.ErrorIs(t, err, kind, name)
	}
	for size, want := range map[int]string{65535: "", 65536: "where.a: the values of where exceed 65535 bytes together"} {
		_, err := table.Slice([]lookup.Condition{on("a", partition.Equal, strings.Repeat("x", size))}, false)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	gap := events()
	gap.Settings.Columns = nil
	_, err := gap.Slice([]lookup.Condition{on("a", partition.Equal, "1"), on("c", partition.Equal, "1")}, false)
	require.ErrorContains(t, err, `where.c: "c" is restricted before it must be "b"`)

	_, err = (&lookup.Table{Schema: products, Settings: &lookup.Settings{}}).Slice(nil, true)
	require.ErrorContains(t, err, "order: shop.products has no clustering columns")

	one, err := table.Slice([]lookup.Condition{on("a", partition.In, "2", "1", "2")}, false)
	require.NoError(t, err)
	other, err := table.Slice([]lookup.Condition{on("a", partition.In, "1", "2")}, false)
	require.NoError(t, err)
	assert.True(t, one.Same(other), "a list is a set")
	assert.Equal(t, 2, one.Each())
	reverse, err := table.Slice([]lookup.Condition{on("a", partition.In, "1", "2")}, true)
	require.NoError(t, err)
	assert.False(t, one.Same(reverse))
	assert.NotEqual(t, one.Shape(0), reverse.Shape(0))
	assert.NotEqual(t, one.Shape(0), one.Shape(1))
}

func TestAClientMayNotRestrictWhatItMayNotRead(t *testing.T) {
	table := events()
	for column, want := range map[string]error{"a": nil, "b": lookup.ErrForbidden, "x": lookup.ErrForbidden} {
		_, err := table.Narrow([]string{"id", "a"}).Slice([]lookup.Condition{on(column, partition.Equal, "1")}, false)
		require.ErrorIs(t, err, want, column)
	}
}

func TestALevelMustBeAllowed(t *testing.T) {
	for asked, want := range map[string]partition.Level{"": "", "local_quorum": "LOCAL_QUORUM", "LOCAL_ONE": "LOCAL_ONE"} {
		level, err := events().Level(asked)
		require.NoError(t, err, asked)
		assert.Equal(t, want, level)
	}
	_, err := events().Level("ALL")
	require.ErrorIs(t, err, lookup.ErrForbidden)
	require.ErrorContains(t, err, "(LOCAL_ONE, LOCAL_QUORUM)")
}

// TestASliceGoesOnWhereTheKeysEnd sends lookups that are refused before anything is read.
func TestASliceGoesOnWhereTheKeysEnd(t *testing.T) {
	f := newFixture(t)
	for name, test := range map[string]struct {
		keys       []partition.Key
		conditions []lookup.Condition
		want       string
	}{
		"the key names it, too":     {[]partition.Key{rowKey(t, "k"), rowKey(t, "k", "1")}, []lookup.Condition{on("a", partition.Equal, "1")}, `keys[1]: it names the clustering column "a"`},
		"the key ends before it":    {[]partition.Key{rowKey(t, "k", "1"), rowKey(t, "k")}, []lookup.Condition{on("b", partition.Equal, "1")}, `keys[1]: where restricts "b", so that the key must name "a"`},
		"too many values in all":    {[]partition.Key{rowKey(t, "k"), rowKey(t, "l"), rowKey(t, "m"), rowKey(t, "n")}, []lookup.Condition{on("a", partition.In, "1", "2", "3")}, "4 keys with 3 values each"},
		"a full primary key and it": {[]partition.Key{rowKey(t, "k", "1", "2", "3")}, []lookup.Condition{on("b", partition.Equal, "1")}, `keys[0]: it names the clustering column "b"`},
	} {
		table := events()
		s, err := table.Slice(test.conditions, false)
		require.NoError(t, err, name)
		table.Columns = table.Schema.Columns
		_, err = f.Get(t.Context(), &lookup.Request{Table: table, Keys: test.keys, Slice: s})
		require.ErrorContains(t, err, test.want, name)
		require.ErrorIs(t, err, lookup.ErrInvalid, name)
	}
	// Cassandra refuses to restrict clustering columns in a SELECT of static columns alone.
	_, err := f.Get(t.Context(), &lookup.Request{Table: events(), Keys: []partition.Key{rowKey(t, "k"), rowKey(t, "k", "1")}, Columns: events().Schema.PartitionKey})
	require.ErrorContains(t, err, "columns: a partition has them once")
}

func TestFunctionsOfColumns(t *testing.T) {
	set := &cqltype.Type{Kind: cqltype.Set, Elems: []*cqltype.Type{text}}
	frozen := *set
	frozen.Frozen = true
	column := func(name string, kind schema.ColumnKind, typ *cqltype.Type) schema.Column {
		return schema.Column{Name: name, Type: typ, Kind: kind}
	}
	table := &lookup.Table{Settings: &lookup.Settings{}, Schema: schema.NewTable("ks", "t", "id", []schema.Column{
		column("id", schema.PartitionKey, text), column("c", schema.Clustering, text), column("s", schema.Static, text), column("Name", schema.Regular, text),
		column("tags", schema.Regular, set), column("ids", schema.Regular, &frozen), column("odd", schema.Regular, text), column("ttl(odd)", schema.Regular, text)})}
	table.Columns = table.Schema.Columns
	for name, want := range map[string]schema.Column{
		"writetime(Name)": {Name: "writetime(Name)", Type: &cqltype.Type{Kind: cqltype.BigInt}, Kind: schema.Regular, Function: schema.WriteTime, Of: "Name"},
		"TTL(s)":          {Name: "ttl(s)", Type: &cqltype.Type{Kind: cqltype.Int}, Kind: schema.Static, Function: schema.TTL, Of: "s"},
		"writetime(ids)":  {Name: "writetime(ids)", Type: &cqltype.Type{Kind: cqltype.BigInt}, Kind: schema.Regular, Function: schema.WriteTime, Of: "ids"},
		"ttl(odd)":        column("ttl(odd)", schema.Regular, text),
	} {
		columns, err := table.Select([]string{name})
		require.NoError(t, err, name)
		assert.Equal(t, []schema.Column{want}, columns)
	}
	for name, want := range map[string]string{
		"writetime(id)": "tells nothing", "ttl(c)": "tells nothing", "ttl(tags)": "tells nothing", "writetime(x)": `no column "x"`,
		"count(Name)": `no column "count(Name)"`, "ttl(Name": "no column", "ttl(writetime(Name))": "no column", "TTL(odd)": "has a column that is named",
	} {
		_, err := table.Select([]string{"id", name})
		require.ErrorContains(t, err, "columns[1]: ", name)
		require.ErrorContains(t, err, want, name)
		require.ErrorIs(t, err, lookup.ErrInvalid)
	}
	_, err := table.Select([]string{"ttl(s)", "TTL(s)"})
	require.ErrorContains(t, err, "asked twice")
	for _, narrow := range []*lookup.Table{table.Narrow([]string{"id"}), {Schema: table.Schema, Settings: table.Settings, Columns: table.Columns[:1]}} {
		_, err := narrow.Select([]string{"writetime(Name)"})
		require.ErrorIs(t, err, lookup.ErrForbidden, "when a cell was written tells of the cell")
	}
}
