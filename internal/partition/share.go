package partition

import (
	"unsafe"

	"github.com/qosproxy/qosproxy/internal/schema"
)

// NoColumn stands for no column of a key.
const NoColumn = -1

// Classes are keys by what they can share a statement with: those of one class can.
type Classes struct {
	// Of is the class of each key, or nil when they are numbered as the classes are: one
	// class of all keys, or one of each.
	Of []int32
	// Sizes are the numbers of keys of the classes.
	Sizes []int32
}

// Statements returns how many statements of at most size keys, at least 1, the classes take.
func (c Classes) Statements(size int) int {
	n := 0
	for _, keys := range c.Sizes {
		n += (int(keys)-1)/size + 1
	}
	return n
}

// Share finds which of at least one keys of a table can share a statement of at most size
// keys: those that agree in all columns that they name but one, whose type has one form for
// each value. That is a column of the partition key; of full primary keys, which are one row
// each, it may be a clustering column as well. Of several such columns it takes the one that
// makes fewest statements, and returns it, counted in key order; NoColumn if no statement has
// two keys. A key with a cursor shares with no other.
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

// classify tells keys apart by all columns that they name but one. An empty value of that one
// is alone if Cassandra takes it for null, which an IN may not have.
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

// rest is a key without one of its columns: the bytes of the partition key and of the
// clustering values, those before that column and those behind it. Bytes decide, even of
// types of which different bytes compare as equal: these are different keys. alone is not 0
// for a key that shares with no other.
type rest struct {
	before, behind, rows string
	alone                int
}

// others returns the key without a column. The strings are the bytes of the key in place:
// keys are immutable.
func others(k Key, partitionKey, column int) rest {
	switch {
	case column >= len(k.components): // of which it has no value
		return rest{before: inPlace(k.routing), rows: inPlace(k.clustering)}
	case column >= partitionKey:
		before, behind := without(k.clustering, k.components[partitionKey:], column-partitionKey, clusteringHeader)
		return rest{before: before, behind: behind, rows: inPlace(k.routing)}
	case partitionKey == 1:
		return rest{rows: inPlace(k.clustering)}
	}
	// Each component has its length before it and one byte behind it.
	before, behind := without(k.routing, k.components, column, compositeHeader)
	return rest{before: before, behind: behind, rows: inPlace(k.clustering)}
}

// compositeHeader is what a component of a composite partition key takes besides its value,
// in bytes.
const compositeHeader = 2 + 1

// without cuts one of several components out of their encoding, each of which takes header
// bytes more than its value.
func without(encoded []byte, components [][]byte, column, header int) (before, behind string) {
	from := 0
	for _, c := range components[:column] {
		from += header + len(c)
	}
	to := from + header + len(components[column])
	return inPlace(encoded[:from]), inPlace(encoded[to:])
}

// inPlace returns bytes that never change as a string, without a copy.
func inPlace(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
