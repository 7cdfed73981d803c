package server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

func TestAMistypedTableIsHintedAt(t *testing.T) {
	s := New(Config{}, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}})
	_, err := s.table(context.Background(), "ks", "prodcts")
	require.ErrorContains(t, err, "; did you mean ks.products?")
	_, err = s.table(context.Background(), "ks", "nothing_like_it")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "did you mean")
	_, err = products(t).Select([]string{"pirce"})
	require.ErrorContains(t, err, "; did you mean price?")
	_, err = products(t).Narrow([]string{"name"}).Select([]string{"pirce"})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "price", "a column that the client may not read")
}
