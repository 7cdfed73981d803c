package shadow_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/shadow"
)

func TestEveryPlantedDifferenceIsFoundAndNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		alter func(r *partition.Result)
		want  shadow.Difference
	}{
		"a key without rows": {
			func(r *partition.Result) { *r = partition.Result{Status: partition.NotFound} },
			shadow.Difference{Kind: shadow.MissingRow, Row: "[1]", Driver: `{"id":"k1","at":1,"v":"value","n":5}`},
		},
		"a missing row": {
			func(r *partition.Result) { r.Rows = slices.Delete(r.Rows, 1, 2) },
			shadow.Difference{Kind: shadow.MissingRow, Row: "[2]", Driver: `{"id":"k1","at":2,"v":"value","n":5}`},
		},
		"a row too many": {
			func(r *partition.Result) {
				r.Rows = append(r.Rows, partition.Row{[]byte("k1"), number(9), nil, nil})
			},
			shadow.Difference{Kind: shadow.ExtraRow, Row: "[9]", Proxy: `{"id":"k1","at":9,"v":null,"n":null}`},
		},
		"a row twice": {
			func(r *partition.Result) { r.Rows = append(r.Rows, r.Rows[2]) },
			shadow.Difference{Kind: shadow.ExtraRow, Row: "[3]", Proxy: `{"id":"k1","at":3,"v":"value","n":5}`},
		},
		"a changed cell": {
			func(r *partition.Result) { r.Rows[1][2] = []byte("other") },
			shadow.Difference{Kind: shadow.Cell, Row: "[2]", Column: "v", Driver: `"value"`, Proxy: `"other"`},
		},
		"null for a value": {
			func(r *partition.Result) { r.Rows[1][2] = nil },
			shadow.Difference{Kind: shadow.Cell, Row: "[2]", Column: "v", Driver: `"value"`, Proxy: `null`},
		},
		"rows in another order": {
			func(r *partition.Result) { slices.Reverse(r.Rows) },
			shadow.Difference{Kind: shadow.RowOrder, Driver: "[1] [2] [3]", Proxy: "[3] [2] [1]"},
		},
		"the same number in other bytes": {
			func(r *partition.Result) { r.Rows[0][3] = []byte{0, 5} },
			shadow.Difference{Kind: shadow.Bytes, Row: "[1]", Column: "n", Driver: "5 = 0x05", Proxy: "5 = 0x0005"},
		},
		"bytes that are no value of the type": {
			func(r *partition.Result) { r.Rows[0][2] = []byte{0xff} },
			shadow.Difference{Kind: shadow.Bytes, Row: "[1]", Column: "v", Driver: `"value"`, Proxy: "0xff, no text"},
		},
		"a row of another width": {
			func(r *partition.Result) { r.Rows[0] = r.Rows[0][:3] },
			shadow.Difference{Kind: shadow.Columns, Row: "[1]", Driver: `{"id":"k1","at":1,"v":"value","n":5}`, Proxy: "3 cells"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				proxy := store(func(k string, r *partition.Result) {
					if k == "k1" {
						tc.alter(r)
					}
				})
				v := compare(t, request(t, 3), store(nil), proxy)
				assert.Equal(t, 3, v.Compared)
				assert.Equal(t, 1, v.Different)
				if assert.NotEmpty(t, v.Differences) {
					tc.want.Table, tc.want.Key = "shop.events", `"k1"`
					got := v.Differences[0]
					assert.Equal(t, tc.want, shadow.Difference{
						Table: got.Table, Key: got.Key, Row: got.Row, Column: got.Column, Kind: got.Kind, Driver: got.Driver, Proxy: got.Proxy,
					})
				}
			})
		})
	}
}

func TestNullIsNotEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := func(cell []byte) shadow.Path {
			return store(func(_ string, r *partition.Result) { r.Rows[0][2] = cell })
		}
		v := compare(t, request(t, 1), set(nil), set([]byte{}))
		if assert.Len(t, v.Differences, 1) {
			assert.Equal(t, [2]string{"null", `""`}, [2]string{v.Differences[0].Driver, v.Differences[0].Proxy})
		}
		assert.Zero(t, compare(t, request(t, 1), set([]byte{}), set([]byte{})).Different)
		assert.Zero(t, compare(t, request(t, 1), set(nil), set(nil)).Different)
	})
}

func TestOtherColumnsAreADifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxy := shadow.PathFunc(func(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
			a, err := store(nil)(ctx, req)
			a.Columns = slices.Clone(a.Columns)
			a.Columns[3] = column("n", cqltype.BigInt, schema.Regular)
			return a, err
		})
		v := compare(t, request(t, 2), store(nil), proxy)
		assert.Equal(t, 2, v.Different)
		assert.Equal(t, "id text, at int, v text, n bigint", v.Differences[0].Proxy)
	})
}

func TestWhatIsNotAnsweredIsNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := store(func(k string, r *partition.Result) {
			if k == "k0" {
				*r = partition.Result{Status: partition.TimedOut}
			}
		})
		v := compare(t, request(t, 3), store(nil), late)
		assert.Zero(t, v.Different+v.Unsettled)
		assert.Equal(t, 2, v.Compared)
		assert.Equal(t, map[partition.Status]int{partition.TimedOut: 1}, v.Unanswered[shadow.ProxySide])
		assert.Empty(t, v.Unanswered[shadow.DriverSide])
	})
}

// nth alters the answer of the n-th reading, from 1 on, by alter(n).
func nth(alter func(n int, r *partition.Result)) shadow.Path {
	n := 0
	return shadow.PathFunc(func(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
		n++
		return store(func(_ string, r *partition.Result) { alter(n, r) })(ctx, req)
	})
}

func TestWhatDiffersIsReadAgain(t *testing.T) {
	value := func(r *partition.Result, text string) { r.Rows[0][2] = []byte(text) }
	moving := func(n int, r *partition.Result) { value(r, strconv.Itoa(n)) }
	steady := func(int, *partition.Result) {}
	for name, tc := range map[string]struct {
		driver, proxy                 func(n int, r *partition.Result)
		different, changed, unsettled int
		took                          time.Duration
	}{
		"a write that the second reading has": {
			driver: func(n int, r *partition.Result) { value(r, map[bool]string{true: "old", false: "new"}[n == 1]) },
			proxy:  func(_ int, r *partition.Result) { value(r, "new") }, changed: 1, took: 20 * time.Millisecond,
		},
		"a write that the third reading has": {
			driver: func(n int, r *partition.Result) { value(r, map[bool]string{true: "old", false: "new"}[n < 3]) },
			proxy:  func(_ int, r *partition.Result) { value(r, "new") }, changed: 1, took: 220 * time.Millisecond,
		},
		"a proxy that is wrong all the time": {
			driver: steady, proxy: func(_ int, r *partition.Result) { value(r, "wrong") }, different: 1, took: 220 * time.Millisecond,
		},
		"a proxy that is wrong in another way each time": {driver: steady, proxy: moving, different: 1, took: 220 * time.Millisecond},
		"a proxy that stays behind":                      {driver: moving, proxy: steady, different: 1, took: 220 * time.Millisecond},
		"a row that is written faster than it is read": {
			driver: moving, proxy: func(n int, r *partition.Result) { value(r, strconv.Itoa(100+n)) }, changed: 1, took: 220 * time.Millisecond,
		},
		"a proxy that answers wrong and then no more": {
			driver: steady, proxy: func(n int, r *partition.Result) {
				if value(r, "wrong"); n > 1 {
					*r = partition.Result{Status: partition.Unavailable}
				}
			}, unsettled: 1, took: 620 * time.Millisecond,
		},
		"a proxy that answers wrong, not, and wrong again": {
			driver: steady, proxy: func(n int, r *partition.Result) {
				if value(r, "wrong"); n == 2 {
					*r = partition.Result{Status: partition.TimedOut}
				}
			}, different: 1, took: 420 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				v := compare(t, request(t, 1), nth(tc.driver), nth(tc.proxy))
				assert.Equal(t, [3]int{tc.different, tc.changed, tc.unsettled}, [3]int{v.Different, v.Changed, v.Unsettled})
				assert.Equal(t, tc.took, time.Since(start))
			})
		})
	}
}
