package cassandra

import (
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/schema"
)

var textType = &cqltype.Type{Kind: cqltype.Text}

// testTable returns a table whose columns are named by kind.
func testTable(partitionKey, clustering, regular []string) *schema.Table {
	var columns []schema.Column
	for kind, names := range map[schema.ColumnKind][]string{schema.PartitionKey: partitionKey} {
		for _, n := range names {
			columns = append(columns, schema.Column{Name: n, Type: textType, Kind: kind})
		}
	}
	for _, n := range clustering {
		columns = append(columns, schema.Column{Name: n, Type: textType, Kind: schema.Clustering})
	}
	for _, n := range regular {
		columns = append(columns, schema.Column{Name: n, Type: textType, Kind: schema.Regular})
	}
	return schema.NewTable("ks", "t", "id", columns)
}

func ask(table *schema.Table, names ...string) *executor.Query {
	q := &executor.Query{Table: table}
	for _, n := range names {
		c, _ := table.Column(n)
		q.Columns = append(q.Columns, c)
	}
	return q
}

func TestStatementText(t *testing.T) {
	simple := testTable([]string{"id"}, nil, []string{"name", "Price €", `quo"ted`})
	rows := testTable([]string{"id"}, []string{"seq"}, []string{"v"})
	composite := testTable([]string{"a", "B"}, []string{"seq"}, []string{"v"})
	for name, test := range map[string]struct {
		query     *executor.Query
		many, one string
		asked     []int
	}{
		"the key is selected to tell the rows apart": {
			ask(simple, "name"),
			`SELECT "id", "name" FROM "ks"."t" WHERE "id" IN ?`,
			`SELECT "id", "name" FROM "ks"."t" WHERE "id" = ?`, []int{1},
		},
		"columns in another order, and twice, share a statement": {
			ask(simple, "Price €", "id", "name", "Price €"),
			`SELECT "id", "name", "Price €" FROM "ks"."t" WHERE "id" IN ?`,
			`SELECT "id", "name", "Price €" FROM "ks"."t" WHERE "id" = ?`, []int{2, 0, 1, 2},
		},
		"names are quoted": {
			ask(simple, `quo"ted`),
			`SELECT "id", "quo""ted" FROM "ks"."t" WHERE "id" IN ?`,
			`SELECT "id", "quo""ted" FROM "ks"."t" WHERE "id" = ?`, []int{1},
		},
		"several rows per partition are limited": {
			ask(rows, "v"),
			`SELECT "id", "v" FROM "ks"."t" WHERE "id" IN ? PER PARTITION LIMIT ?`,
			`SELECT "id", "v" FROM "ks"."t" WHERE "id" = ? PER PARTITION LIMIT ?`, []int{1},
		},
		"a composite key has no IN": {
			ask(composite, "v"), "",
			`SELECT "v" FROM "ks"."t" WHERE "a" = ? AND "B" = ? PER PARTITION LIMIT ?`, []int{0},
		},
		"no column at all": {
			ask(composite), "",
			`SELECT "a" FROM "ks"."t" WHERE "a" = ? AND "B" = ? PER PARTITION LIMIT ?`, []int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSelection(test.query)
			if test.many != "" {
				assert.Equal(t, test.many, s.many())
			} else {
				assert.Negative(t, s.key)
			}
			assert.Equal(t, test.one, s.one())
			assert.Equal(t, test.asked, s.asked)
		})
	}
}

func TestStatementTakesAsManyKeysAsItsRowsAllow(t *testing.T) {
	simple := testTable([]string{"id"}, nil, []string{"v"})
	rows := testTable([]string{"id"}, []string{"seq"}, []string{"v"})
	composite := testTable([]string{"a", "b"}, nil, []string{"v"})
	decimals := schema.NewTable("ks", "t", "id", []schema.Column{
		{Name: "id", Type: &cqltype.Type{Kind: cqltype.Decimal}}, {Name: "v", Type: textType, Kind: schema.Regular},
	})
	for name, test := range map[string]struct {
		table  *schema.Table
		limit  int
		strict bool
		keys   int
		want   []span
	}{
		"one row each":                        {simple, 1000, true, 200, []span{{0, 200}}},
		"few rows each":                       {rows, 100, false, 50, []span{{0, 50}}},
		"one row too many":                    {rows, 100, true, 50, []span{{0, 25}, {25, 50}}},
		"a thousand rows each":                {rows, 1000, true, 10, []span{{0, 3}, {3, 6}, {6, 10}}},
		"more rows than a statement may have": {rows, 5001, false, 3, []span{{0, 1}, {1, 2}, {2, 3}}},
		"an absurd limit":                     {rows, 1 << 40, true, 2, []span{{0, 1}, {1, 2}}},
		"composite keys":                      {composite, 1, true, 2, []span{{0, 1}, {1, 2}}},
		"keys that compare as equal":          {decimals, 1, true, 2, []span{{0, 1}, {1, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			q := ask(test.table, "v")
			q.Limit, q.Strict = test.limit, test.strict
			r := &reading{SubQuery: &executor.SubQuery{Query: q}, selection: newSelection(q), limits: &inLimits{}}
			assert.Equal(t, test.want, span{0, test.keys}.split(r.perStatement()))
		})
	}
}

// column is a result column of a protocol type.
func column(typ gocql.Type) gocql.ColumnInfo { return gocql.ColumnInfo{TypeInfo: rawType{typ: typ}} }

func TestStatementRefusesColumnsThatHaveChanged(t *testing.T) {
	s := newSelection(ask(testTable([]string{"id"}, nil, []string{"v"}), "v"))
	require.NoError(t, s.check([]gocql.ColumnInfo{column(gocql.TypeVarchar), column(gocql.TypeVarchar)}))
	require.NoError(t, s.check([]gocql.ColumnInfo{column(gocql.TypeVarchar), column(gocql.TypeCustom)}), "protocols differ in what is custom")
	require.ErrorIs(t, s.check([]gocql.ColumnInfo{column(gocql.TypeVarchar), column(gocql.TypeInt)}), errStale)
	require.ErrorIs(t, s.check([]gocql.ColumnInfo{column(gocql.TypeVarchar)}), errStale)
}

func TestGroupableTypesHaveOneFormForEachValue(t *testing.T) {
	list := func(e cqltype.Kind) *cqltype.Type {
		return &cqltype.Type{Kind: cqltype.List, Frozen: true, Elems: []*cqltype.Type{{Kind: e}}}
	}
	for _, yes := range []*cqltype.Type{textType, {Kind: cqltype.UUID}, {Kind: cqltype.BigInt}, list(cqltype.Text)} {
		assert.True(t, groupable(yes), yes.String())
	}
	for _, no := range []*cqltype.Type{{Kind: cqltype.Decimal}, {Kind: cqltype.VarInt}, {Kind: cqltype.Double}, list(cqltype.Decimal)} {
		assert.False(t, groupable(no), no.String())
	}
}
