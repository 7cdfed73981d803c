package cqltype

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
)

// Compare returns a negative number, 0 or a positive number by Cassandra's order
// of the type, in which sets and maps store their elements and keys. Both cells
// must be as EncodeJSON makes them. The empty value comes first.
func (t *Type) Compare(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	if t.composite() {
		return t.compareElements(a, b)
	}
	switch t.Kind {
	case TinyInt, SmallInt, Int, BigInt, Counter, Timestamp:
		return cmp.Compare(integer(a), integer(b))
	case VarInt:
		return bigInt(a).Cmp(bigInt(b))
	case Decimal:
		return compareDecimals(a, b)
	case Float:
		return compareFloats(float64(math.Float32frombits(binary.BigEndian.Uint32(a))),
			float64(math.Float32frombits(binary.BigEndian.Uint32(b))))
	case Double:
		return compareFloats(math.Float64frombits(binary.BigEndian.Uint64(a)),
			math.Float64frombits(binary.BigEndian.Uint64(b)))
	case UUID:
		return compareUUIDs(a, b)
	case TimeUUID:
		return cmp.Or(cmp.Compare(uuidTime(a), uuidTime(b)), compareSigned(a[8:], b[8:]))
	default:
		return bytes.Compare(a, b)
	}
}

// compareElements orders composite values by their elements, then by how many they
// have. A null element comes first, and equals a missing one.
func (t *Type) compareElements(a, b []byte) int {
	x, errX := t.elements(a)
	y, errY := t.elements(b)
	if errX != nil || errY != nil {
		return bytes.Compare(a, b)
	}
	for i := range min(x.n, y.n) {
		ea, errX := x.next()
		eb, errY := y.next()
		switch {
		case errX != nil || errY != nil:
			return bytes.Compare(a, b)
		case ea == nil && eb == nil:
			continue
		case ea == nil:
			return -1
		case eb == nil:
			return 1
		}
		if c := t.elem(i).Compare(ea, eb); c != 0 {
			return c
		}
	}
	return cmp.Compare(x.n, y.n)
}

// compareFloats orders like Java's Double.compare: -0.0 before 0.0, NaN last.
func compareFloats(a, b float64) int {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return -cmp.Compare(a, b) // package cmp puts NaN first
	case a == 0 && b == 0:
		return cmp.Compare(1/a, 1/b)
	default:
		return cmp.Compare(a, b)
	}
}

// compareDecimals orders by value, whatever the scale. Only numbers of the same
// magnitude are brought to a common scale, so that 1E+2000000000 stays cheap.
func compareDecimals(a, b []byte) int {
	x, y := bigInt(a[4:]), bigInt(b[4:])
	if x.Sign() != y.Sign() || x.Sign() == 0 {
		return cmp.Compare(x.Sign(), y.Sign())
	}
	digitsX, digitsY := digits(x), digits(y)
	magnitudeX := digitsX - int64(int32(binary.BigEndian.Uint32(a)))
	magnitudeY := digitsY - int64(int32(binary.BigEndian.Uint32(b)))
	if magnitudeX != magnitudeY {
		return x.Sign() * cmp.Compare(magnitudeX, magnitudeY)
	}
	ten := big.NewInt(10)
	if d := digitsX - digitsY; d < 0 {
		x.Mul(x, new(big.Int).Exp(ten, big.NewInt(-d), nil))
	} else {
		y.Mul(y, new(big.Int).Exp(ten, big.NewInt(d), nil))
	}
	return x.Cmp(y)
}

// digits returns how many decimal digits a number has.
func digits(v *big.Int) int64 {
	return int64(len(new(big.Int).Abs(v).Append(nil, 10)))
}

// uuidTime returns the time stamp of a UUID of version 1, its fields in order of
// significance: high with the version, middle, low.
func uuidTime(u []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(u[6:]))<<48 | uint64(binary.BigEndian.Uint16(u[4:]))<<32 |
		uint64(binary.BigEndian.Uint32(u))
}

// compareUUIDs orders UUIDs by version, those of version 1 by time, then by
// their bytes.
func compareUUIDs(a, b []byte) int {
	if c := cmp.Compare(a[6]>>4, b[6]>>4); c != 0 {
		return c
	}
	if a[6]>>4 == 1 {
		if c := cmp.Compare(uuidTime(a), uuidTime(b)); c != 0 {
			return c
		}
	}
	return bytes.Compare(a, b)
}

// compareSigned compares bytes as signed numbers, as timeuuid does for
// compatibility (CASSANDRA-8730).
func compareSigned(a, b []byte) int {
	for i := range a {
		if c := cmp.Compare(int8(a[i]), int8(b[i])); c != 0 {
			return c
		}
	}
	return 0
}
