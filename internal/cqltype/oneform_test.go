package cqltype

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOneForm(t *testing.T) {
	list := func(e Kind) *Type {
		return &Type{Kind: List, Frozen: true, Elems: []*Type{{Kind: e}}}
	}
	for _, yes := range []*Type{{Kind: Text}, {Kind: UUID}, {Kind: BigInt}, list(Text)} {
		assert.True(t, yes.OneForm(), yes.String())
	}
	for _, no := range []*Type{{Kind: Decimal}, {Kind: VarInt}, {Kind: Double}, list(Decimal)} {
		assert.False(t, no.OneForm(), no.String())
	}
}

// A field that was added to a type is missing in the values that were written before.
func TestValuesWithoutAFieldEqualThoseWithNull(t *testing.T) {
	short := []byte{0, 0, 0, 4, 0, 0, 0, 1}
	long := append(slices.Clone(short), 0xff, 0xff, 0xff, 0xff)
	for _, kind := range []Kind{Tuple, UDT} {
		of := &Type{Kind: kind, Name: "u", Fields: []string{"a", "b"}, Frozen: true, Elems: []*Type{{Kind: Int}, {Kind: Int}}}
		assert.Zero(t, of.Compare(short, long), of.String())
		assert.False(t, of.OneForm(), of.String())
	}
}
