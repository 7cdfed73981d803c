package cqltype

import (
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
