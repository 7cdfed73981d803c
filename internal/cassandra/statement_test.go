package cassandra

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
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
			`SELECT "id", "v" FROM "ks"."t" WHERE "id" IN ? PER PARTITION LIMIT ? LIMIT ?`,
			`SELECT "id", "v" FROM "ks"."t" WHERE "id" = ? PER PARTITION LIMIT ?`, []int{1},
		},
		"keys of two columns differ in the second": {
			ask(composite, "v"),
			`SELECT "v", "B" FROM "ks"."t" WHERE "a" = ? AND "B" IN ? PER PARTITION LIMIT ? LIMIT ?`,
			`SELECT "v" FROM "ks"."t" WHERE "a" = ? AND "B" = ? PER PARTITION LIMIT ?`, []int{0},
		},
		"the column in which they differ was asked for": {
			ask(composite, "v", "B"),
			`SELECT "B", "v" FROM "ks"."t" WHERE "a" = ? AND "B" IN ? PER PARTITION LIMIT ? LIMIT ?`,
			`SELECT "B", "v" FROM "ks"."t" WHERE "a" = ? AND "B" = ? PER PARTITION LIMIT ?`, []int{1, 0},
		},
		"no column at all": {
			ask(composite),
			`SELECT "a", "B" FROM "ks"."t" WHERE "a" = ? AND "B" IN ? PER PARTITION LIMIT ? LIMIT ?`,
			`SELECT "a" FROM "ks"."t" WHERE "a" = ? AND "B" = ? PER PARTITION LIMIT ?`, []int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSelection(test.query)
			s.vary(len(test.query.Table.PartitionKey) - 1)
			assert.Equal(t, test.many, s.in(len(s.table.PartitionKey)))
			assert.Equal(t, test.query.Table.PartitionKey[s.varying].Name, s.many[s.key].Name)
			assert.Equal(t, test.one, s.one(len(s.table.PartitionKey)))
			assert.Equal(t, test.asked, s.asked)
		})
	}
}

func TestStatementTakesAsManyKeysAsAreExpectedToFit(t *testing.T) {
	simple, rows := keyed(false, cqltype.Text), keyed(true, cqltype.Text)
	for name, test := range map[string]struct {
		table  *schema.Table
		known  int // rows of 450 bytes for each key; 0 for nothing
		limit  int
		strict bool
		keys   int
		want   []span
	}{
		"one row each":                        {simple, 1, 1000, true, 200, []span{{0, 200}}},
		"few rows each":                       {rows, 4, 1000, true, 70, []span{{0, 70}}},
		"never more than a node should read":  {rows, 4, 1000, true, 200, []span{{0, 100}, {100, 200}}},
		"hundred rows each":                   {rows, 100, 1000, true, 50, []span{{0, 16}, {16, 33}, {33, 50}}},
		"a thousand rows each":                {rows, 1000, 1000, true, 7, []span{{0, 3}, {3, 7}}},
		"as many as fit in any case":          {rows, 4000, 100, false, 46, []span{{0, 46}}},
		"nothing is known":                    {rows, 0, 1000, true, 10, []span{{0, 5}, {5, 10}}},
		"nothing is known, small limit":       {rows, 0, 3, true, 30, []span{{0, 30}}},
		"more rows than a statement may have": {rows, 9000, 9001, false, 3, []span{{0, 1}, {1, 2}, {2, 3}}},
		"an absurd limit":                     {rows, 2, 1 << 40, true, 2, []span{{0, 2}}},
		"keys that compare as equal":          {keyed(true, cqltype.Decimal), 1, 1, true, 2, []span{{0, 1}, {1, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			q := ask(test.table, "v")
			q.Limit, q.Strict = test.limit, test.strict
			v := &volume{}
			v.observe(1, test.known, 450*test.known, false)
			var keys []partition.Key
			for i := range test.keys {
				keys = append(keys, textKey(t, strconv.Itoa(i)))
			}
			got := (&fakeHost{}).reading(q, v, &inLimits{}, nil, keys...).arrange()
			assert.Equal(t, test.want, got)
		})
	}
}

func TestStatementsOfRows(t *testing.T) {
	table := testTable([]string{"id"}, []string{"day", "Kind"}, []string{"v"})
	descending := schema.NewTable("ks", "t", "id", func() []schema.Column {
		columns := slices.Clone(table.Columns)
		columns[1].Descending = true
		return columns
	}())
	restrict := func(column int, o partition.Operator) partition.Restriction {
		return partition.Restriction{Column: column, Operator: o, Values: [][]byte{{1}}}
	}
	const day, kind = 0, 1
	for want, test := range map[string]struct {
		table   *schema.Table
		slice   *partition.Slice
		named   int
		varying int
	}{
		`SELECT "id", "v" FROM "ks"."t" WHERE "id" IN ? AND "day" = ? PER PARTITION LIMIT ? LIMIT ?`: {table, nil, 2, 0},
		`SELECT "id", "v" FROM "ks"."t" WHERE "id" IN ? AND "day" = ? AND "Kind" = ?`:                {table, nil, 3, 0},
		`SELECT "id", "v", "Kind" FROM "ks"."t" WHERE "id" = ? AND "day" = ? AND "Kind" IN ?`:        {table, nil, 3, 2},
		`SELECT "id", "v" FROM "ks"."t" WHERE "id" = ? AND "day" >= ? AND "day" < ? ORDER BY "day" DESC PER PARTITION LIMIT ?`: {table,
			&partition.Slice{Restrictions: []partition.Restriction{restrict(day, partition.GreaterOrEqual), restrict(day, partition.Less)}, Reverse: true}, 1, none},
		`SELECT "id", "v" FROM "ks"."t" WHERE "id" = ? AND "day" = ? AND "Kind" IN ? ORDER BY "day" ASC PER PARTITION LIMIT ?`: {descending,
			&partition.Slice{Restrictions: []partition.Restriction{restrict(kind, partition.In)}, Reverse: true}, 2, none},
		`SELECT "id", "v" FROM "ks"."t" WHERE "id" IN ? AND "day" IN ? AND "Kind" <= ? PER PARTITION LIMIT ? LIMIT ?`: {table,
			&partition.Slice{Restrictions: []partition.Restriction{restrict(day, partition.In), restrict(kind, partition.LessOrEqual)}}, 1, 0},
	} {
		q := ask(test.table, "v")
		q.Slice = test.slice
		s := newSelection(q)
		s.vary(test.varying)
		if test.varying == none {
			assert.Equal(t, want, s.one(test.named))
		} else {
			assert.Equal(t, want, s.in(test.named))
		}
	}
}

func TestStatementsOfFunctions(t *testing.T) {
	table := testTable([]string{"id"}, nil, []string{"name", "note", "more"})
	q := ask(table, "note", "id")
	name, _ := table.Column("name")
	note, _ := table.Column("note")
	q.Columns = append(q.Columns, note.With(schema.TTL), name.With(schema.WriteTime))
	s := newSelection(q)
	assert.Equal(t, `SELECT "id", "note", ttl("note"), writetime("name") FROM "ks"."t" WHERE "id" = ?`, s.one(1))
	assert.Equal(t, []int{1, 0, 2, 3}, s.asked)

	// Beyond the usual sets, all queries share one statement, and one with functions.
	other := ask(table, "name")
	other.Columns = append(other.Columns, note.With(schema.WriteTime))
	whole, same := wholeSelection(q, table.Columns), wholeSelection(other, table.Columns)
	assert.Equal(t, `SELECT "id", "name", "note", "more", ttl("more"), ttl("name"), ttl("note"), writetime("more"), writetime("name"), writetime("note") `+
		`FROM "ks"."t" WHERE "id" = ?`, whole.one(1))
	assert.Equal(t, whole.one(1), same.one(1))
	assert.Equal(t, []int{2, 0, 6, 8}, whole.asked)
}
