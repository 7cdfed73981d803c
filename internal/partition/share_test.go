package partition_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestShare(t *testing.T) {
	table := func(kinds ...cqltype.Kind) *schema.Table {
		var columns []schema.Column
		for i, k := range kinds {
			columns = append(columns, schema.Column{Name: string(rune('a' + i)), Type: &cqltype.Type{Kind: k}})
		}
		return schema.NewTable("ks", "t", "id", columns)
	}
	text, decimal := cqltype.Text, cqltype.Decimal
	for name, test := range map[string]struct {
		table      *schema.Table
		keys       [][]string
		size       int
		column     int
		of         []int32
		sizes      []int32
		statements int
	}{
		"one column":                  {table(text), [][]string{{"1"}, {"2"}, {"3"}}, 2, 0, nil, []int32{3}, 2},
		"two tenants":                 {table(text, text), [][]string{{"a", "1"}, {"b", "1"}, {"a", "2"}, {"b", "3"}}, 9, 1, []int32{0, 1, 0, 1}, []int32{2, 2}, 2},
		"the column that shares more": {table(text, text), [][]string{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"c", "2"}}, 9, 0, []int32{0, 0, 0, 1}, []int32{3, 1}, 2},
		"nothing shared":              {table(text, text), [][]string{{"a", "1"}, {"b", "2"}}, 9, partition.NoColumn, nil, []int32{1, 1}, 2},
		"parts that only look alike":  {table(text, text, text), [][]string{{"ab", "c", "x"}, {"a", "bc", "x"}}, 9, partition.NoColumn, nil, []int32{1, 1}, 2},
		"one key each by order":       {table(text), [][]string{{"1"}, {"2"}}, 1, partition.NoColumn, nil, []int32{1, 1}, 2},
		"many forms do not vary":      {table(decimal, text), [][]string{{"1", "a"}, {"2", "a"}}, 9, partition.NoColumn, nil, []int32{1, 1}, 2},
		"an empty number is null":     {table(text, cqltype.Int), [][]string{{"a", "1"}, {"a", ""}, {"a", "2"}}, 9, 1, []int32{0, 1, 0}, []int32{2, 1}, 2},
		"an empty text is a text":     {table(text, text), [][]string{{"a", "1"}, {"a", ""}, {"a", "2"}}, 9, 1, nil, []int32{3}, 1},
		"many forms before the IN":    {table(decimal, text), [][]string{{"1", "a"}, {"1", "b"}}, 9, 1, nil, []int32{2}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var keys []partition.Key
			for _, parts := range test.keys {
				var components [][]byte
				for _, p := range parts {
					components = append(components, []byte(p))
				}
				k, err := partition.NewKey(components...)
				require.NoError(t, err)
				keys = append(keys, k)
			}
			column, classes := partition.Share(test.table, keys, test.size)
			assert.Equal(t, test.column, column)
			assert.Equal(t, partition.Classes{Of: test.of, Sizes: test.sizes}, classes)
			assert.Equal(t, test.statements, classes.Statements(test.size))
		})
	}
}

func TestShareOfRows(t *testing.T) {
	text := &cqltype.Type{Kind: cqltype.Text}
	table := schema.NewTable("ks", "t", "id", []schema.Column{
		{Name: "p", Type: text}, {Name: "c", Type: text, Kind: schema.Clustering}, {Name: "d", Type: text, Kind: schema.Clustering}})
	const c, d = 1, 2
	for name, test := range map[string]struct {
		keys   [][]string
		column int
		of     []int32
		sizes  []int32
	}{
		"rows of one partition":          {[][]string{{"a", "1", "x"}, {"a", "1", "y"}, {"a", "1", "z"}}, d, nil, []int32{3}},
		"by the first clustering column": {[][]string{{"a", "1", "x"}, {"a", "2", "x"}}, c, nil, []int32{2}},
		"the same row of partitions":     {[][]string{{"a", "1", "x"}, {"b", "1", "x"}, {"c", "1", "x"}}, 0, nil, []int32{3}},
		"the same prefix of partitions":  {[][]string{{"a", "1"}, {"b", "1"}}, 0, nil, []int32{2}},
		"partitions beside their rows":   {[][]string{{"a"}, {"b"}, {"a", "1"}, {"b", "1"}, {"b", "1", "x"}}, 0, []int32{0, 0, 1, 1, 2}, []int32{2, 2, 1}},
		// An IN has one limit for all rows of a partition, and a prefix has many.
		"prefixes of one partition":   {[][]string{{"a", "1"}, {"a", "2"}}, partition.NoColumn, nil, []int32{1, 1}},
		"values that only look alike": {[][]string{{"a", "bc", "d"}, {"a", "b", "cd"}}, partition.NoColumn, nil, []int32{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			keys, seen := []partition.Key{}, map[partition.ID]bool{}
			for _, parts := range test.keys {
				var components [][]byte
				for _, p := range parts {
					components = append(components, []byte(p))
				}
				k, err := partition.NewRowKey(1, components...)
				require.NoError(t, err)
				keys, seen[k.ID()] = append(keys, k), true
				assert.Equal(t, []byte(parts[0]), k.Routing(), "rows are where their partition is")
			}
			assert.Len(t, seen, len(keys), "no two are the same")
			column, classes := partition.Share(table, keys, 9)
			assert.Equal(t, test.column, column)
			assert.Equal(t, partition.Classes{Of: test.of, Sizes: test.sizes}, classes)
		})
	}
}

func TestNewRowKey(t *testing.T) {
	for name, test := range map[string]struct {
		components [][]byte
		want       error
	}{
		"null":            {[][]byte{[]byte("a"), nil}, partition.ErrNullKey},
		"too long":        {[][]byte{[]byte("a"), make([]byte, partition.MaxKeyBytes+1)}, partition.ErrKeyTooLong},
		"empty partition": {[][]byte{{}, []byte("a")}, partition.ErrEmptyKey},
		"empty value":     {[][]byte{[]byte("a"), {}}, nil},
	} {
		_, err := partition.NewRowKey(1, test.components...)
		assert.Equal(t, test.want, err, name)
	}
}
