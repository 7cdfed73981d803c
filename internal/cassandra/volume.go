package cassandra

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/partition"
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
	// pageRows is the most rows of a page.
	pageRows = 1000
	// maxUnpagedRows is the most rows of a statement without pages.
	maxUnpagedRows = 5000
	// firstKeyRows is how many rows a key is taken to have before one was seen.
	firstKeyRows = 8
	// spread is how many times the rows that are expected a statement may return: keys
	// of which few are wide then rarely exceed it. DESIGN.md has counts.
	spread = 2
	// keyMemory is over how many keys their rows are averaged.
	keyMemory = 64
	// worstPages is how many times pageBytes a node reads for an IN in the worst case,
	// 64 MiB: it reads every key up to the limits before it cuts the answer off.
	worstPages = 32
)

// volumes is how large the rows of the tables are that were read.
type volumes struct {
	byTable sync.Map // of volumeName
}

// volumeName tells reads of all columns that may be read from those of the columns that
// were asked for, and reads of one shape from those of another: the rows of the one say
// nothing of the other's.
type volumeName struct {
	keyspace, table, shape string
	whole                  bool
}

func (v *volumes) of(q *partition.Query, whole bool) *volume {
	name := volumeName{q.Table.Keyspace, q.Table.Name, q.Shape, whole}
	if known, ok := v.byTable.Load(name); ok {
		return known.(*volume) //nolint:forcetypeassert // nothing else is stored
	}
	known, _ := v.byTable.LoadOrStore(name, &volume{})
	return known.(*volume) //nolint:forcetypeassert // nothing else is stored
}

// volume is how large the rows and partitions of one table are, of the columns that are
// read, on average: float64 bits, 0 before any was seen. An update that is lost to
// another at the same time is no harm.
type volume struct {
	rowBytes, keyBytes atomic.Uint64
	// keyRows is how many rows a key has.
	keyRows atomic.Uint64
}

// observe takes what came for a number of keys, some of which may have more rows if
// censored. What no row came for says nothing. A nil volume learns nothing.
func (v *volume) observe(keys, rows, bytes int, censored bool) {
	if v == nil || rows == 0 {
		return
	}
	blend(&v.rowBytes, float64(bytes)/float64(rows), volumeWeight)
	blend(&v.keyBytes, float64(bytes)/float64(keys), volumeWeight)
	each := float64(rows) / float64(keys)
	if censored && each < v.rowsOfKey() {
		return
	}
	blend(&v.keyRows, each, float64(keys)/float64(keys+keyMemory))
}

func blend(average *atomic.Uint64, x, weight float64) {
	x = max(x, 1)
	if was := math.Float64frombits(average.Load()); was > 0 {
		x = was + weight*(x-was)
	}
	average.Store(math.Float64bits(x))
}

// rowsOfKey returns how many rows a key is expected to have.
func (v *volume) rowsOfKey() float64 {
	if rows := math.Float64frombits(v.keyRows.Load()); rows > 0 {
		return rows
	}
	return firstKeyRows
}

// bytesOfRow returns how large a row is expected to be, and whether one was seen.
func (v *volume) bytesOfRow() (float64, bool) {
	if row := math.Float64frombits(v.rowBytes.Load()); row > 0 {
		return row, true
	}
	return firstRowBytes, false
}

// rows returns the most rows that a statement for several keys may return.
func (v *volume) rows() int {
	row, _ := v.bytesOfRow()
	return min(max(int(pageBytes/row), 1), maxUnpagedRows)
}

// keys returns for how many keys of at most limit rows one statement is: for so many that
// it returns at most rows in any case, or is expected to and bounded in what a node reads.
func (v *volume) keys(limit int) int {
	most := v.rows()
	expected := int(float64(most) / (spread * v.rowsOfKey()))
	return max(most/limit, min(expected, worstPages*most/min(limit, most)))
}

// page returns how many rows of a statement for so many keys come at a time: 0 for all,
// which is faster, since a node reads the partitions of an IN one after the other when
// it pages. The statement returns at most the given number of rows.
func (v *volume) page(keys, most int) int {
	key := math.Float64frombits(v.keyBytes.Load())
	row, known := v.bytesOfRow()
	rows := min(max(int(pageBytes/row), 1), pageRows)
	switch {
	case most <= rows:
		return 0
	case known && most <= maxUnpagedRows && key*float64(keys) <= pageBytes:
		return 0
	}
	return rows
}
