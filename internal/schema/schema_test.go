package schema_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestTableKnowsItsKeyColumns(t *testing.T) {
	text := &cqltype.Type{Kind: cqltype.Text}
	columns := []schema.Column{
		{Name: "user", Type: text, Kind: schema.PartitionKey},
		{Name: "day", Type: text, Kind: schema.PartitionKey},
		{Name: "feature", Type: text, Kind: schema.Clustering},
		{Name: "note", Type: text, Kind: schema.Static},
		{Name: "Value", Type: text, Kind: schema.Regular},
	}
	table := schema.NewTable("shop", "features", "id", columns)
	assert.Equal(t, columns[:2], table.PartitionKey)
	assert.Equal(t, columns[2:3], table.Clustering)

	c, ok := table.Column("Value")
	require.True(t, ok)
	assert.Equal(t, columns[4], c)
	_, ok = table.Column("value")
	assert.False(t, ok, "names keep their case")

	s := schema.New([]*schema.Table{table})
	got, ok := s.Table("shop", "features")
	require.True(t, ok)
	assert.Same(t, table, got)
	_, ok = (*schema.Schema)(nil).Table("shop", "features")
	assert.False(t, ok, "a nil schema has no table")
	assert.Equal(t, []string{"shop.features"}, s.Names())
	assert.Empty(t, (*schema.Schema)(nil).Names())
}
