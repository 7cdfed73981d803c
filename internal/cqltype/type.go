// Package cqltype decides what a CQL value looks like: it parses the names of types,
// converts the bytes of a value to the JSON of Cassandra's SELECT JSON and back, and
// builds the bytes of a partition key. Package lookup decides what may be read.
package cqltype

import "math"

// Kind is a CQL type without its parameters.
type Kind uint8

// The kinds of CQL types. Native kinds come first; from List on they have
// parameters.
const (
	// Unknown is the kind of the zero Type; no value has it.
	Unknown Kind = iota
	ASCII
	BigInt
	Blob
	Boolean
	Counter
	Date
	Decimal
	Double
	Duration
	// Empty is the type of which zero bytes are the only value.
	Empty
	Float
	Inet
	Int
	SmallInt
	// Text is also called varchar.
	Text
	Time
	Timestamp
	TimeUUID
	TinyInt
	UUID
	VarInt
	List
	Set
	Map
	Tuple
	UDT
	Vector
	// Custom is a server's own type, known only by its Java class.
	Custom
)

// kindNames are the CQL names of the kinds. Those of UDT and Custom are only for
// messages, because such types are written by their own names.
var kindNames = [...]string{
	Unknown:   "unknown",
	ASCII:     "ascii",
	BigInt:    "bigint",
	Blob:      "blob",
	Boolean:   "boolean",
	Counter:   "counter",
	Date:      "date",
	Decimal:   "decimal",
	Double:    "double",
	Duration:  "duration",
	Empty:     "empty",
	Float:     "float",
	Inet:      "inet",
	Int:       "int",
	SmallInt:  "smallint",
	Text:      "text",
	Time:      "time",
	Timestamp: "timestamp",
	TimeUUID:  "timeuuid",
	TinyInt:   "tinyint",
	UUID:      "uuid",
	VarInt:    "varint",
	List:      "list",
	Set:       "set",
	Map:       "map",
	Tuple:     "tuple",
	UDT:       "user-defined type",
	Vector:    "vector",
	Custom:    "custom type",
}

// String returns the CQL name of the kind in lower case, without parameters.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return kindNames[Unknown]
	}
	return kindNames[k]
}

// Type is a CQL type with its parameters. It is immutable. Pointers to it may be
// shared; types are compared by String, not by pointer.
type Type struct {
	// Kind says which of the fields below are set.
	Kind Kind
	// Frozen is whether the name said frozen<…>.
	Frozen bool
	// Elems are the element of a list, set or vector; key and value of a map;
	// the elements of a tuple; the field types of a UDT, in order.
	Elems []*Type
	// Keyspace and Name name a UDT; Name is the class of a custom type.
	Keyspace, Name string
	// Fields are the field names of a UDT, one for each of Elems.
	Fields []string
	// Dimension is the number of elements of a vector.
	Dimension int
}

// AllowedInPartitionKey reports whether Cassandra accepts a column of the type
// in a partition key. It refuses counters, durations, anything that contains
// one, and collections and UDTs that are not frozen.
func (t *Type) AllowedInPartitionKey() bool {
	switch t.Kind {
	case List, Set, Map, UDT:
		if !t.Frozen {
			return false
		}
	case Unknown, Empty:
		return false
	default:
	}
	return !t.contains(Duration) && !t.contains(Counter)
}

// contains reports whether the type or a type within it is of the kind.
func (t *Type) contains(k Kind) bool {
	if t.Kind == k {
		return true
	}
	for _, e := range t.Elems {
		if e.contains(k) {
			return true
		}
	}
	return false
}

// composite reports whether values of the type hold values of other types.
func (t *Type) composite() bool {
	return t.Kind >= List && t.Kind <= Vector
}

// elem returns the type of the i-th element of a composite value, where the
// keys and values of a map alternate.
func (t *Type) elem(i int) *Type {
	switch t.Kind {
	case Tuple, UDT:
		return t.Elems[i]
	case Map:
		return t.Elems[i&1]
	default:
		return t.Elems[0]
	}
}

// fixedSize returns the number of bytes of every value of the type, or -1 if
// values differ in size. A vector of such values stores them without lengths.
// Cassandra counts smallint, tinyint, date and time as variable here, although
// their values are all of one size.
func (t *Type) fixedSize() int {
	switch t.Kind {
	case Boolean:
		return 1
	case Float, Int:
		return 4
	case BigInt, Double, Timestamp:
		return 8
	case UUID, TimeUUID:
		return 16
	case Empty:
		return 0
	case Vector:
		n := t.Elems[0].fixedSize()
		if n < 0 {
			return -1
		}
		return int(min(int64(n)*int64(t.Dimension), math.MaxInt32))
	default:
		return -1
	}
}
