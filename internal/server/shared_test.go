package server

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// TestRowsAreOnlyRead encodes the same rows for many clients at once, as lookups that
// share a read do. The race detector reports any write to them.
func TestRowsAreOnlyRead(t *testing.T) {
	tbl := table(t, "wide", 1, "id text", "s set<text>", "m map<text, int>", "d decimal", "v varint", "b blob")
	columns := tbl.Schema.Columns
	row := partition.Row{
		[]byte("k"), cell(t, columns[1].Type, `["a","b"]`), cell(t, columns[2].Type, `{"x":1}`),
		cell(t, columns[3].Type, `"1.10"`), cell(t, columns[4].Type, `123456789012345678901234567890`), []byte{1, 2, 3},
	}
	before := slices.Clone(row)
	for i := range before {
		before[i] = slices.Clone(before[i])
	}
	broken := partition.Row{[]byte("k"), []byte{1}, nil, nil, nil, nil}
	results := []partition.Result{{Status: partition.Found, Rows: []partition.Row{row}}, {Status: partition.Found, Rows: []partition.Row{broken}}}

	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			own := slices.Clone(results)
			if i%2 == 0 {
				req := &lookup.Request{Table: tbl, Columns: columns, Keys: make([]partition.Key, len(own))}
				echo := func(dst []byte, _ *lookup.Request, _ int) ([]byte, error) { return append(dst, `"k"`...), nil }
				_, err := appendResponse(nil, req, &lookup.Response{Results: own}, echo)
				assert.NoError(t, err)
				assert.Equal(t, partition.Failed, own[1].Status)
				return
			}
			e, err := encoderFor(qosproxyv1.Encoding(i / 2 % 3))
			assert.NoError(t, err)
			assert.NotEmpty(t, e.results(columns, own))
		})
	}
	clients.Wait()
	require.Equal(t, before, row)
	assert.Equal(t, partition.Found, results[1].Status, "what one client cannot be shown is its own affair")
}
