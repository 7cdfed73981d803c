package shadow_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/shadow"
)

func column(name string, kind cqltype.Kind, part schema.ColumnKind) schema.Column {
	return schema.Column{Name: name, Type: &cqltype.Type{Kind: kind}, Kind: part}
}

// events is a table with several rows per key.
func events() *lookup.Table {
	t := schema.NewTable("shop", "events", "", []schema.Column{
		column("id", cqltype.Text, schema.PartitionKey), column("at", cqltype.Int, schema.Clustering),
		column("v", cqltype.Text, schema.Regular), column("n", cqltype.VarInt, schema.Regular),
	})
	return &lookup.Table{Schema: t, Columns: t.Columns, Settings: &lookup.Settings{
		Keyspace: "shop", Table: "events", Consistency: "LOCAL_ONE", MaxKeys: 500, MaxRowsPerKey: 1000, MaxResponseBytes: 1 << 20,
	}}
}

func key(t *testing.T, i int) partition.Key {
	t.Helper()
	k, err := partition.NewKey(fmt.Appendf(nil, "k%d", i))
	require.NoError(t, err)
	return k
}

// request asks for keys k0 to k(n-1).
func request(t *testing.T, n int) *lookup.Request {
	t.Helper()
	req := &lookup.Request{Table: events()}
	for i := range n {
		req.Keys = append(req.Keys, key(t, i))
	}
	return req
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// row is the row of a key with the clustering value at.
func row(k partition.Key, at int) partition.Row {
	return partition.Row{k.Components()[0], number(at), []byte("value"), {5}}
}

// result is the result of every key: three rows.
func result(k partition.Key) partition.Result {
	return partition.Result{Status: partition.Found, Rows: []partition.Row{row(k, 1), row(k, 2), row(k, 3)}}
}

// store answers every key with result, as changed by alter, which may be nil.
func store(alter func(k string, r *partition.Result)) shadow.PathFunc {
	return func(_ context.Context, req *lookup.Request) (*shadow.Answer, error) {
		a := &shadow.Answer{Columns: req.Table.Columns, Sent: 1}
		for _, k := range req.Keys {
			r := result(k)
			if alter != nil {
				alter(string(k.Components()[0]), &r)
			}
			a.Results = append(a.Results, r)
		}
		return a, nil
	}
}

// compare reads a request both ways and returns the verdict.
func compare(t *testing.T, req *lookup.Request, driver, proxy shadow.Path) *shadow.Verdict {
	t.Helper()
	j := &shadow.Judge{Driver: driver, Proxy: proxy, Pauses: shadow.DefaultPauses}
	d, err := driver.Read(t.Context(), req)
	require.NoError(t, err)
	p, err := proxy.Read(t.Context(), req)
	require.NoError(t, err)
	return j.Compare(t.Context(), req, d, p)
}
