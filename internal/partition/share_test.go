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
