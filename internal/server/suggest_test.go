package server

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
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

// TestLongNamesAreNotRepeated sends names of a mebibyte.
func TestLongNamesAreNotRepeated(t *testing.T) {
	long := strings.Repeat("x", mebibyte)
	s := New(Config{}, Deps{Lookup: &fake{tables: []*lookup.Table{products(t), clustered(t)}, ring: twoDatacenters(t, 2, 0)}})
	narrow := identity.NewContext(t.Context(), &identity.Client{Name: "shop", Access: identity.NewAccess([]identity.Grant{{Keyspace: "ks", Table: "events", Columns: []string{"v"}}})})
	g := &grpcService{server: s}
	where := func(column string) []*qosproxyv1.Condition { return []*qosproxyv1.Condition{{Column: column}} }
	one := []*qosproxyv1.Key{key(text("a"))}
	for name, ask := range map[string]func(ctx context.Context) error{
		"a table": func(ctx context.Context) error {
			_, err := s.table(ctx, "ks", long)
			return err
		},
		"a keyspace": func(ctx context.Context) error {
			_, err := s.table(ctx, long, "products")
			return err
		},
		"a keyspace of a ring": func(ctx context.Context) error {
			_, err := g.DescribeRing(ctx, &qosproxyv1.DescribeRingRequest{Keyspace: long})
			return err
		},
		"a column": func(ctx context.Context) error {
			_, err := g.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "events", Columns: []string{long}, Keys: one})
			return err
		},
		"a function of a column": func(ctx context.Context) error {
			_, err := g.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "events", Columns: []string{"ttl(" + long + ")"}, Keys: one})
			return err
		},
		"a clustering column": func(ctx context.Context) error {
			_, err := g.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "events", Columns: []string{"v"}, Where: where(long), Keys: one})
			return err
		},
	} {
		for _, ctx := range []context.Context{t.Context(), narrow} {
			err := ask(ctx)
			require.Error(t, err, name)
			assert.Less(t, len(err.Error()), 1<<10, name)
			assert.Less(t, len(rpcProblem(err).message), 1<<10, name)
			assert.NotContains(t, err.Error(), "did you mean", name)
		}
	}
}
