package client

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// TestRowsOfAPartition tests keys with clustering values, conditions and order, with Get and
// Stream.
func TestRowsOfAPartition(t *testing.T) {
	client := dial(t, address, qosproxy.Options{})
	partition := qosproxy.NewKey("north", 2026)
	for name, c := range map[string]struct {
		lookup qosproxy.Lookup
		want   []int32
	}{
		"a partition":   {qosproxy.Lookup{Keys: []qosproxy.Key{partition}}, []int32{1, 2}},
		"a row":         {qosproxy.Lookup{Keys: []qosproxy.Key{qosproxy.NewKey("north", 2026, 2)}}, []int32{2}},
		"no such row":   {qosproxy.Lookup{Keys: []qosproxy.Key{qosproxy.NewKey("north", 2026, 3)}}, nil},
		"in reverse":    {qosproxy.Lookup{Keys: []qosproxy.Key{partition}, Reverse: true}, []int32{2, 1}},
		"equal":         {qosproxy.Lookup{Keys: []qosproxy.Key{partition}, Where: []qosproxy.Condition{qosproxy.Equal("number", 2)}}, []int32{2}},
		"one of":        {qosproxy.Lookup{Keys: []qosproxy.Key{partition}, Where: []qosproxy.Condition{qosproxy.In("number", 1, 3)}}, []int32{1}},
		"above":         {qosproxy.Lookup{Keys: []qosproxy.Key{partition}, Where: []qosproxy.Condition{qosproxy.Greater("number", 1)}}, []int32{2}},
		"below":         {qosproxy.Lookup{Keys: []qosproxy.Key{partition}, Where: []qosproxy.Condition{qosproxy.Less("number", 2)}}, []int32{1}},
		"within bounds": {qosproxy.Lookup{Keys: []qosproxy.Key{partition}, Where: []qosproxy.Condition{qosproxy.AtLeast("number", 1), qosproxy.AtMost("number", 2)}}, []int32{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			c.lookup.Table, c.lookup.Columns = "shop.orders", []string{"number"}
			numbers := func(r qosproxy.Result) (out []int32) {
				require.NoError(t, r.Err())
				rows, err := r.Rows()
				require.NoError(t, err)
				for _, row := range rows {
					out = append(out, row.Value("number").GetInt())
				}
				return out
			}
			answer, err := client.Get(t.Context(), c.lookup)
			require.NoError(t, err)
			assert.Equal(t, c.want, numbers(answer.At(0)))
			for r, err := range client.Stream(t.Context(), c.lookup) {
				require.NoError(t, err)
				assert.Equal(t, c.want, numbers(r))
			}
		})
	}
	for _, reverse := range []bool{false, true} {
		var pages [][]int32
		lookup := qosproxy.Lookup{Table: "shop.orders", Keys: []qosproxy.Key{partition, qosproxy.NewKey("none", 1)}, LimitPerKey: 1, Reverse: reverse}
		lookup.Columns = []string{"number"}
		for answer, err := range client.Pages(t.Context(), lookup) {
			require.NoError(t, err)
			require.NoError(t, answer.Err())
			var page []int32
			for _, r := range answer.All() {
				rows, err := r.Rows()
				require.NoError(t, err)
				for _, row := range rows {
					page = append(page, row.Value("number").GetInt())
				}
			}
			pages = append(pages, page)
		}
		want := [][]int32{{1}, {2}}
		if reverse {
			want = [][]int32{{2}, {1}}
		}
		assert.Equal(t, want, pages, "the second page is of one key, and the last")
	}
	for _, err := range client.Pages(t.Context(), qosproxy.Lookup{Table: "shop.orders", Keys: []qosproxy.Key{partition}, PageTokens: []string{"x"}}) {
		require.ErrorContains(t, err, "not the token of a page")
	}
	_, err := client.Get(t.Context(), qosproxy.Lookup{Table: "shop.orders", Keys: []qosproxy.Key{partition}, Where: []qosproxy.Condition{qosproxy.Equal("number", struct{}{})}})
	require.ErrorContains(t, err, `Where: column "number"`)
	_, err = client.Get(t.Context(), qosproxy.Lookup{Table: "shop.orders", Keys: []qosproxy.Key{partition}, Consistency: "ALL"})
	require.ErrorContains(t, err, "not among those that may be asked of shop.orders")
}

// TestLaterPagesNeedAsManyKeys tests that the keys of later pages are waited for as those of the
// first page are, as far as there are as many.
func TestLaterPagesNeedAsManyKeys(t *testing.T) {
	type page struct {
		keys, needed int32
		optional     []int32
	}
	for name, c := range map[string]struct {
		needed int
		want   []page
	}{
		"fewer than are left": {1, []page{{4, 1, []int32{3}}, {3, 1, []int32{2}}, {1, 1, []int32{0}}}},
		"more than are left":  {3, []page{{4, 3, []int32{3}}, {3, 2, []int32{2}}, {1, 1, []int32{0}}}},
		"one, as by default":  {0, []page{{4, 0, []int32{3}}, {3, 0, []int32{2}}, {1, 0, []int32{0}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []page
			continued := [][]int{{0, 1, 3}, {2}, nil} // by page, the keys that have another one
			s := &scripted{respond: func(in *qosproxyv1.BatchGetRequest) *qosproxyv1.BatchGetResponse {
				out := &qosproxyv1.BatchGetResponse{}
				for i := range in.GetKeys() {
					r := &qosproxyv1.KeyResult{Status: qosproxyv1.KeyStatus_KEY_STATUS_FOUND}
					if slices.Contains(continued[len(asked)], i) {
						r.NextPageToken = "token"
					}
					out.Results = append(out.Results, r)
				}
				asked = append(asked, page{int32(len(in.GetKeys())), in.GetMinKeys(), in.GetOptionalKeys()})
				return out
			}}
			lookup := qosproxy.Lookup{Table: "shop.orders", Keys: qosproxy.Keys("a", "b", "c", "d"), Optional: []int{3}, SoftDeadline: time.Millisecond, MinKeys: c.needed}
			for _, err := range dial(t, s.serve(t, ""), qosproxy.Options{}).Pages(t.Context(), lookup) {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, asked)
		})
	}
}
