package cassandra

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/qosproxy/qosproxy/internal/partition"
)

const (
	// pageBytes is about how many bytes of cells a node should send at a time: half of the default
	// max_response_bytes, so that what is not too large comes without pages. Node and proxy each
	// have the rows of a page in memory several times.
	pageBytes = 2 << 20
	// firstRowBytes is the assumed size of a row before one was seen.
	firstRowBytes = 16 << 10
	// volumeWeight is the weight of one statement in the moving averages.
	volumeWeight = 1.0 / 8
	// pageRows is the most rows of a page.
	pageRows = 1000
	// maxUnpagedRows is the most rows of a statement without pages.
	maxUnpagedRows = 5000
	// firstKeyRows is the assumed number of rows of a key before one was seen.
	firstKeyRows = 8
	// spread is the most rows that a statement may return, as a multiple of the expected ones: if
	// only few keys are wide, it then rarely returns more. DESIGN.md has counts.
	spread = 2
	// keyMemory is over how many keys the number of their rows is averaged.
	keyMemory = 64
	// worstPages is how many times pageBytes a node reads for an IN in the worst case,
	// 64 MiB: it reads every key up to the limits before it cuts the answer off.
	worstPages = 32
)

// volumes holds the volume of each table that was read.
type volumes struct {
	byTable sync.Map // of volumeName
}

// volumeName separates reads of all columns that may be read from reads of the columns that were
// asked for, and each shape from the others: the rows of one say nothing about those of another.
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

// volume holds moving averages of the size of the rows and keys of one table, in the columns that
// are read. They are float64 bits, 0 before any was seen. Of two concurrent updates one may be
// lost, which is harmless.
type volume struct {
	rowBytes, keyBytes atomic.Uint64
	// keyRows is how many rows a key has.
	keyRows atomic.Uint64
}

// observe updates the averages with what came for a number of keys. If censored, some of these may
// have more rows, so that the average number of rows may rise and not fall. Statements without rows
// are ignored. A nil volume learns nothing.
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

// rows returns the LIMIT of a statement for several keys.
func (v *volume) rows() int {
	row, _ := v.bytesOfRow()
	return min(max(int(pageBytes/row), 1), maxUnpagedRows)
}

// keys returns how many keys of at most limit rows share a statement: as many as fit into its LIMIT
// in any case or, if more, as many as are expected to. In the latter case worstPages bounds what a
// node reads.
func (v *volume) keys(limit int) int {
	most := v.rows()
	expected := int(float64(most) / (spread * v.rowsOfKey()))
	return max(most/limit, min(expected, worstPages*most/min(limit, most)))
}

// page returns the page size in rows of a statement for the given number of keys; most is the most
// rows that it returns. It is 0 for no paging, which is faster: a node that pages reads the
// partitions of an IN one after the other.
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
