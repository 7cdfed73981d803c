package cqltype

import "slices"

// OneForm reports whether values of the type that Cassandra compares as equal always have the
// same bytes. Only keys of such a type may share an IN. Cassandra sorts the values of an IN
// by the order of the type and keeps one of several that compare as equal. If two keys differ
// only in their bytes, as decimal 1.0 and 1.00 do, one partition would be returned and the
// other would seem not to exist.
func (t *Type) OneForm() bool {
	return !slices.Contains(manyForms, t.Kind) && !slices.ContainsFunc(t.Elems, func(e *Type) bool { return !e.OneForm() })
}

// manyForms are the kinds of which different bytes may compare as equal, or whose order is
// not known here. Tuples and UDTs are among them because fields added later are missing at
// the end of older values, and compare as null.
var manyForms = []Kind{Decimal, VarInt, Float, Double, Boolean, Tuple, UDT, Custom, Unknown}

// EmptyIsNull reports whether Cassandra treats a value of no bytes as null where null is not
// allowed, as in an IN; its isEmptyValueMeaningless is true for most of these types.
func (t *Type) EmptyIsNull() bool { return t.Kind != Text && t.Kind != ASCII && t.Kind != Blob }
