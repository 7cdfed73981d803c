package partition

import (
	"unsafe"

	"github.com/qosproxy/qosproxy/internal/schema"
)

// NoColumn means that there is no such column of a key.
const NoColumn = -1

// Classes partitions keys by which of them can share a statement: those of one class can.
type Classes struct {
	// Of is the class of each key. It is nil when there is only one class, or when each key is a
	// class of its own and they have the same numbers.
	Of []int32
	// Sizes is the number of keys of each class.
	Sizes []int32
}

// Statements returns how many statements the classes need, with at most size keys each; size is at
// least 1.
func (c Classes) Statements(size int) int {
	n := 0
	for _, keys := range c.Sizes {
		n += (int(keys)-1)/size + 1
	}
	return n
}

// Share finds which keys of a table, at least one, can share a statement of at most size keys:
// those that agree in all columns that they name except one, whose type must have only one
// serialized form for each value. That column belongs to the partition key or, for full primary
// keys, which are one row each, possibly to the clustering columns. Of several such columns, Share
// takes the one that needs the fewest statements. It returns its position in key order, or NoColumn
// if no statement has two keys. A key with a cursor shares with no other.
func Share(table *schema.Table, keys []Key, size int) (column int, classes Classes) {
	column, fewest := NoColumn, len(keys)
	for i := range len(table.PartitionKey) + len(table.Clustering) {
		if size <= 1 || fewest == 1 {
			break
		}
		if t := table.KeyColumn(i).Type; t.OneForm() {
			c := classify(table, keys, i, t.EmptyIsNull())
			if n := c.Statements(size); n < fewest {
				column, classes, fewest = i, c, n
			}
		}
	}
	if column == NoColumn {
		classes.Sizes = make([]int32, len(keys))
		for i := range classes.Sizes {
			classes.Sizes[i] = 1
		}
	}
	return column, classes
}

// classify groups keys that agree in all columns that they name except one. A key with an empty
// value of that column is alone if Cassandra takes empty for null, which an IN may not contain.
func classify(table *schema.Table, keys []Key, column int, emptyIsNull bool) Classes {
	width := len(table.PartitionKey) + len(table.Clustering)
	restOf := func(k int) rest {
		r, all := others(keys[k], len(table.PartitionKey), column), keys[k].components
		switch {
		case keys[k].cursor != nil,
			column >= len(table.PartitionKey) && len(all) < width,
			emptyIsNull && len(all[column]) == 0:
			r.alone = k + 1
		}
		return r
	}
	first, same := restOf(0), 1
	for same < len(keys) && restOf(same) == first {
		same++
	}
	c := Classes{Sizes: []int32{int32(same)}}
	if same == len(keys) {
		return c
	}
	c.Of = make([]int32, len(keys))
	known := make(map[rest]int32, len(keys))
	known[first] = 0
	for k := same; k < len(keys); k++ {
		o := restOf(k)
		class, ok := known[o]
		if !ok {
			class = int32(len(c.Sizes))
			known[o] = class
			c.Sizes = append(c.Sizes, 0)
		}
		c.Of[k] = class
		c.Sizes[class]++
	}
	return c
}

// rest is a key without one of its columns: the bytes of the partition key and the clustering
// values, before that column and after it. Keys are compared by bytes, even if different bytes are
// equal values of the type: such keys are different. alone is nonzero for a key that shares with no
// other.
type rest struct {
	before, behind, rows string
	alone                int
}

// others returns the key without a column. The strings alias the bytes of the key, which is
// immutable.
func others(k Key, partitionKey, column int) rest {
	switch {
	case column >= len(k.components): // the key does not name it
		return rest{before: inPlace(k.routing), rows: inPlace(k.clustering)}
	case column >= partitionKey:
		before, behind := without(k.clustering, k.components[partitionKey:], column-partitionKey, clusteringHeader)
		return rest{before: before, behind: behind, rows: inPlace(k.routing)}
	case partitionKey == 1:
		return rest{rows: inPlace(k.clustering)}
	}
	// Each component has its length before it and one byte after it.
	before, behind := without(k.routing, k.components, column, compositeHeader)
	return rest{before: before, behind: behind, rows: inPlace(k.clustering)}
}

// compositeHeader is how many bytes a component of a composite partition key takes besides its
// value.
const compositeHeader = 2 + 1

// without cuts one component out of the encoding of several. In it, each takes header bytes more
// than its value.
func without(encoded []byte, components [][]byte, column, header int) (before, behind string) {
	from := 0
	for _, c := range components[:column] {
		from += header + len(c)
	}
	to := from + header + len(components[column])
	return inPlace(encoded[:from]), inPlace(encoded[to:])
}

// inPlace returns b as a string without a copy. The bytes must never change.
func inPlace(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
