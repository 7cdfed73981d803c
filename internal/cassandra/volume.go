package cassandra

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/schema"
)

const (
	// pageBytes is how many bytes of cells a node should send at a time, about: half of
	// what an answer has at most unless configured otherwise, so that what is not too
	// large comes without pages. A node has the rows of a page in its heap, several
	// times; and so has the proxy.
	pageBytes = 2 << 20
	// firstRowBytes is what a row is taken for before one was seen.
	firstRowBytes = 16 << 10
	// volumeWeight is the weight of one statement in the moving averages.
	volumeWeight = 1.0 / 8
)

// volumes is how large the rows of the tables are that were read.
type volumes struct {
	byTable sync.Map // of [2]string: keyspace and name
}

func (v *volumes) of(t *schema.Table) *volume {
	name := [2]string{t.Keyspace, t.Name}
	if known, ok := v.byTable.Load(name); ok {
		return known.(*volume) //nolint:forcetypeassert // nothing else is stored
	}
	known, _ := v.byTable.LoadOrStore(name, &volume{})
	return known.(*volume) //nolint:forcetypeassert // nothing else is stored
}

// volume is how large the rows and partitions of one table are, of the columns that are
// asked for, on average: float64 bits, 0 before any was seen. An update that is lost to
// another at the same time is no harm.
type volume struct {
	rowBytes, keyBytes atomic.Uint64
}

// observe takes what came for a number of keys. What no row came for says nothing. A nil
// volume learns nothing.
func (v *volume) observe(keys, rows, bytes int) {
	if v == nil || rows == 0 {
		return
	}
	blend(&v.rowBytes, float64(bytes)/float64(rows))
	blend(&v.keyBytes, float64(bytes)/float64(keys))
}

func blend(average *atomic.Uint64, x float64) {
	x = max(x, 1)
	if was := math.Float64frombits(average.Load()); was > 0 {
		x = was + volumeWeight*(x-was)
	}
	average.Store(math.Float64bits(x))
}

// page returns how many rows of a statement for so many keys come at a time: 0 for all,
// which is faster, since a node reads the partitions of an IN one after the other when
// it pages. The statement returns at most the given number of rows.
func (v *volume) page(keys, most int) int {
	row, key := math.Float64frombits(v.rowBytes.Load()), math.Float64frombits(v.keyBytes.Load())
	known := row > 0
	if !known {
		row = firstRowBytes
	}
	rows := min(max(int(pageBytes/row), 1), pageRows)
	switch {
	case most <= rows:
		return 0
	case known && most <= maxUnpagedRows && key*float64(keys) <= pageBytes:
		return 0
	}
	return rows
}
