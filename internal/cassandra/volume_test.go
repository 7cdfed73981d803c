package cassandra

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPagesFollowTheSizeOfRows(t *testing.T) {
	type seen struct{ keys, rows, bytes int }
	for name, tt := range map[string]struct {
		seen       []seen
		keys, most int
		want       int
	}{
		"nothing known, few rows":          {nil, 17, 17, 0},
		"nothing known, many rows":         {nil, 1, 1001, 128},
		"no rows tell nothing":             {[]seen{{50, 0, 0}}, 1, 1001, 128},
		"small partitions":                 {[]seen{{10, 100, 100 * 450}}, 17, 1700, 0},
		"small partitions, absurd limit":   {[]seen{{10, 100, 100 * 450}}, 1, 1 << 30, 1000},
		"partitions of 10 MiB":             {[]seen{{1, 160, 10 << 20}}, 1, 1001, 32},
		"rows of 10 MiB":                   {[]seen{{1, 1, 10 << 20}}, 8, 8, 1},
		"a row of 10 MiB":                  {[]seen{{1, 1, 10 << 20}}, 1, 1, 0},
		"rows of 100 KiB, what fits":       {[]seen{{1, 1, 100 << 10}}, 17, 17, 0},
		"rows of 100 KiB, what does not":   {[]seen{{1, 1, 100 << 10}}, 50, 50, 20},
		"rows that have become smaller":    {append([]seen{{1, 1, 1 << 20}}, repeat(seen{1, 1, 1000}, 100)...), 50, 50, 0},
		"one large partition in a hundred": {append(repeat(seen{1, 1, 1000}, 100), seen{1, 1, 4 << 20}), 17, 17, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var v volume
			for _, s := range tt.seen {
				v.observe(s.keys, s.rows, s.bytes, false)
			}
			assert.Equal(t, tt.want, v.page(tt.keys, tt.most))
		})
	}
}

func repeat[T any](x T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = x
	}
	return out
}
