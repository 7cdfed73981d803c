package server

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Body is the body of a batchGet that did not arrive at a listener.
type Body struct {
	// Table is keyspace.table, from the member "table", which bodies in files have in addition;
	// empty without it.
	Table string

	in *batchGetBody
}

// ReadBody parses a body. Its errors are of kind lookup.ErrInvalid, name the field, and never
// repeat the body.
func ReadBody(text []byte) (*Body, error) {
	b := &Body{in: &batchGetBody{}}
	err := bodyMembers(bytes.Clone(text), func(name string, value json.RawMessage) error {
		if name != "table" {
			return b.in.set(name, value)
		}
		if b.Table, _ = jsonText(value); !strings.Contains(b.Table, ".") {
			return lookup.Invalid(name, `expected keyspace.table in quotes, such as "shop.products"`)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Request returns the lookup that the body asks for of table t. Its error is an *lookup.Error
// that names the field.
func (b *Body) Request(t *lookup.Table) (*lookup.Request, error) {
	keyspace, table, _ := strings.Cut(b.Table, ".")
	p := b.in.request(keyspace, table)
	columns, err := t.Select(p.columns)
	if err != nil {
		return nil, err
	}
	slice, level, err := p.rows(t)
	if err != nil {
		return nil, err
	}
	req := &lookup.Request{
		Table: t, Slice: slice, Consistency: level, Columns: columns, LimitPerKey: p.limit, Timeout: p.timeout,
		Paging: p.paging, PageTokens: p.pageTokens, SoftDeadline: p.soft, MinKeys: p.minKeys, Keys: make([]partition.Key, p.keys),
	}
	encode := p.encoder(t.Schema)
	for i := range req.Keys {
		if req.Keys[i], err = encode(i); err != nil {
			return nil, invalidKey(i, err)
		}
	}
	return req, nil
}

// KeyFromText returns the key on a line of its own, written as for a terminal (a:7) or as JSON,
// as in a body.
func KeyFromText(t *schema.Table, text string) (partition.Key, error) {
	types, names := keyColumns(t)
	components, err := cqltype.KeyFromText(types, names, len(t.PartitionKey), text)
	if err != nil {
		return partition.Key{}, err
	}
	return partition.NewRowKey(len(t.PartitionKey), components...)
}
