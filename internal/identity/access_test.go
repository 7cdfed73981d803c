package identity

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAccess(t *testing.T) {
	a := NewAccess([]Grant{{"shop", "products", []string{"id"}}, {"shop", "features", nil}})
	columns, may := a.Table("shop", "products")
	assert.True(t, may)
	assert.Equal(t, []string{"id"}, columns)
	columns, may = a.Table("shop", "features")
	assert.True(t, may)
	assert.Empty(t, columns)
	_, may = a.Table("shop.products", "")
	assert.False(t, may)
	_, may = a.Table("shop", "orders")
	assert.False(t, may)
	assert.True(t, a.Keyspace("shop"))
	assert.False(t, a.Keyspace(""))
	assert.False(t, a.Keyspace("sho"))
}

func TestPriorities(t *testing.T) {
	for _, p := range []Priority{Interactive, Standard, Batch} {
		got, ok := ParsePriority(p.String())
		assert.True(t, ok)
		assert.Equal(t, p, got)
	}
	_, ok := ParsePriority("urgent")
	assert.False(t, ok)
	assert.Empty(t, Priority(3).String())
	assert.Same(t, Anonymous, FromContext(t.Context()))
	c := &Client{Name: "x"}
	assert.Same(t, c, FromContext(NewContext(t.Context(), c)))
}
