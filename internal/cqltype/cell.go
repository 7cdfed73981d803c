package cqltype

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Layouts follow the native protocol, version 4 and later, sections 5 and 6:
// https://github.com/apache/cassandra/blob/trunk/doc/native_protocol_v5.spec

// errTruncated is the reason when a cell is shorter than a length in it says.
var errTruncated = errors.New("truncated")

// malformed returns the error for a cell that is not a value of its type. It never
// holds the bytes, which are data of the table.
func (t *Type) malformed(reason error) error {
	return fmt.Errorf("malformed %s cell: %w", t.Kind, reason)
}

// size returns an error unless the cell has n bytes.
func (t *Type) size(cell []byte, n int) error {
	if len(cell) != n {
		return t.malformed(fmt.Errorf("%d bytes instead of %d", len(cell), n))
	}
	return nil
}

// elements iterates over the values within the cell of a composite type.
type elements struct {
	rest []byte
	// n is how many elements are left; each key and value of a map counts.
	n int
	// fixed is the size of each element of a vector that stores no lengths, or -1.
	fixed int
	// vint is whether lengths are unsigned vints rather than 32-bit integers.
	vint bool
	// optional is whether elements may be missing at the end, as in tuples and
	// UDTs written before a field was added.
	optional bool
}

// elements starts an iteration. It checks the count against the size of the cell,
// so that callers may allocate by it.
func (t *Type) elements(cell []byte) (elements, error) {
	e := elements{rest: cell, fixed: -1}
	switch t.Kind {
	case Tuple, UDT:
		e.n, e.optional = len(t.Elems), true
		return e, nil
	case Vector:
		return t.vectorElements(cell)
	default:
	}
	if len(cell) < 4 {
		return e, t.malformed(errTruncated)
	}
	n := max(0, int64(int32(binary.BigEndian.Uint32(cell)))) // Cassandra treats a negative count as none
	if t.Kind == Map {
		n *= 2
	}
	if n > int64(len(cell)-4)/4 {
		return e, t.malformed(fmt.Errorf("%d elements in %d bytes", n, len(cell)))
	}
	e.n, e.rest = int(n), cell[4:]
	return e, nil
}

func (t *Type) vectorElements(cell []byte) (elements, error) {
	e := elements{rest: cell, n: t.Dimension, fixed: t.Elems[0].fixedSize()}
	if e.fixed < 0 {
		e.vint = true
		if len(cell) < t.Dimension {
			return e, t.malformed(errTruncated)
		}
		return e, nil
	}
	if int64(len(cell)) != int64(e.fixed)*int64(t.Dimension) {
		return e, t.malformed(fmt.Errorf("%d bytes instead of %d elements of %d", len(cell), t.Dimension, e.fixed))
	}
	return e, nil
}

// next returns the bytes of the next element, nil for a null.
func (e *elements) next() ([]byte, error) {
	e.n--
	size := e.fixed
	switch {
	case size >= 0:
	case e.vint:
		n, used := uvint(e.rest)
		if used == 0 || n > math.MaxInt32 {
			return nil, errTruncated
		}
		size, e.rest = int(n), e.rest[used:]
	case len(e.rest) == 0 && e.optional:
		return nil, nil
	case len(e.rest) < 4:
		return nil, errTruncated
	default:
		size, e.rest = int(int32(binary.BigEndian.Uint32(e.rest))), e.rest[4:]
		if size < 0 {
			return nil, nil
		}
	}
	if size > len(e.rest) {
		return nil, errTruncated
	}
	elem := e.rest[:size:size]
	e.rest = e.rest[size:]
	return elem, nil
}

// end returns an error if bytes are left after the last element.
func (e *elements) end() error {
	if len(e.rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(e.rest))
	}
	return nil
}

// each calls f with the type and the bytes of every element, nil for a null.
func (t *Type) each(cell []byte, f func(i int, elem *Type, cell []byte) error) error {
	e, err := t.elements(cell)
	if err != nil {
		return err
	}
	for i := range e.n {
		c, err := e.next()
		if err != nil {
			return t.malformed(err)
		}
		if err := f(i, t.elem(i), c); err != nil {
			return err
		}
	}
	if err := e.end(); err != nil {
		return t.malformed(err)
	}
	return nil
}

// uvint reads Cassandra's unsigned vint: the leading one bits of the first byte
// count the bytes that follow, the rest is the number, most significant byte
// first. used is 0 if the bytes end too early.
func uvint(b []byte) (v uint64, used int) {
	if len(b) == 0 {
		return 0, 0
	}
	extra := bits.LeadingZeros8(^b[0])
	if len(b) < 1+extra {
		return 0, 0
	}
	v = uint64(b[0]) & (0xff >> extra)
	for _, c := range b[1 : 1+extra] {
		v = v<<8 | uint64(c)
	}
	return v, 1 + extra
}

// appendUvint writes what uvint reads.
func appendUvint(dst []byte, v uint64) []byte {
	extra := 0
	for extra < 8 && v>>(7*(extra+1)) != 0 {
		extra++
	}
	first := ^byte(0xff >> extra)
	if extra < 8 {
		first |= byte(v >> (8 * extra))
	}
	dst = append(dst, first)
	for i := extra - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// integer returns the value of an integer cell of 1, 2, 4 or 8 bytes.
func integer(cell []byte) int64 {
	v := int64(0)
	if len(cell) > 0 && cell[0]&0x80 != 0 {
		v = -1
	}
	for _, c := range cell {
		v = v<<8 | int64(c)
	}
	return v
}

// intSize returns the number of bytes of an integer kind, 0 for another kind.
func (k Kind) intSize() int {
	switch k {
	case TinyInt:
		return 1
	case SmallInt:
		return 2
	case Int:
		return 4
	case BigInt, Counter:
		return 8
	default:
		return 0
	}
}
