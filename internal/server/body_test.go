package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

func TestABodyOutsideOfAListener(t *testing.T) {
	definition := schema.NewTable("shop", "events", "", []schema.Column{
		{Name: "id", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.PartitionKey},
		{Name: "at", Type: &cqltype.Type{Kind: cqltype.Int}, Kind: schema.Clustering},
		{Name: "v", Type: &cqltype.Type{Kind: cqltype.Text}, Kind: schema.Regular},
	})
	table := &lookup.Table{Schema: definition, Columns: definition.Columns, Settings: &lookup.Settings{Consistency: "LOCAL_ONE"}}

	body, err := server.ReadBody([]byte(`{"table": "shop.events", "keys": ["a", ["b", 7]], "columns": ["v"], "where": {"at": {"gte": 3}}, "limit_per_key": 5, "order": "reverse"}`))
	require.NoError(t, err)
	assert.Equal(t, "shop.events", body.Table)
	req, err := body.Request(table)
	require.NoError(t, err)
	assert.Len(t, req.Keys, 2)
	assert.Equal(t, [][]byte{[]byte("b"), {0, 0, 0, 7}}, req.Keys[1].Components())
	assert.Equal(t, "v", req.Columns[0].Name)
	assert.Equal(t, 5, req.LimitPerKey)
	assert.True(t, req.Slice.Reverse)
	assert.Equal(t, []byte{0, 0, 0, 3}, req.Slice.Restrictions[0].Values[0])

	for line, want := range map[string]string{
		`{"table": "events", "keys": []}`: "table: expected keyspace.table",
		`{"keyz": []}`:                    "keyz: no such field",
		`nothing`:                         "body: ",
		"{\"keys\": [\"\xff\"]}":          "body: the body is not valid UTF-8",
	} {
		_, err := server.ReadBody([]byte(line))
		assert.ErrorContains(t, err, want, line)
	}
	for line, want := range map[string]string{
		`{"keys": [7]}`:                             "keys[0]: ",
		`{"keys": ["a"], "columns": ["w"]}`:         "columns[0]: ",
		`{"keys": ["a"], "where": {"v": "x"}}`:      "where.v: ",
		`{"keys": ["a"], "consistency": "SERIALS"}`: "consistency: ",
	} {
		body, err := server.ReadBody([]byte(line))
		require.NoError(t, err)
		_, err = body.Request(table)
		assert.ErrorContains(t, err, want, line)
	}

	key, err := server.KeyFromText(definition, `["b",7]`)
	require.NoError(t, err)
	assert.Equal(t, req.Keys[1].ID(), key.ID())
	_, err = server.KeyFromText(definition, `["b","c"]`)
	assert.Error(t, err)
}
