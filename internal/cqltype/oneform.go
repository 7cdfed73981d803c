package cqltype

import "slices"

// OneForm reports whether values of the type that Cassandra compares as equal have the same
// bytes. Only keys of such a type may share an IN: Cassandra sorts the values of an IN by
// the order of the type and keeps one of those that compare as equal, so that of two
// partitions whose keys differ only in their bytes, as decimal 1.0 and 1.00 do, one would
// come back and the other as if it did not exist.
func (t *Type) OneForm() bool {
	return !slices.Contains(manyForms, t.Kind) && !slices.ContainsFunc(t.Elems, func(e *Type) bool { return !e.OneForm() })
}

// manyForms are the kinds of which different bytes may compare as equal, or whose order is
// not known here. Fields that are missing at the end of a tuple or of a user-defined type, to
// which they were added since, compare as null.
var manyForms = []Kind{Decimal, VarInt, Float, Double, Boolean, Tuple, UDT, Custom, Unknown}

// EmptyIsNull reports whether Cassandra takes a value of no bytes for null where null is not
// allowed, as in an IN; its isEmptyValueMeaningless is true for most of these types.
func (t *Type) EmptyIsNull() bool { return t.Kind != Text && t.Kind != ASCII && t.Kind != Blob }
