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
	return b.in.request(keyspace, table).request(t, 0)
}

// KeyFromText returns the key on a line of its own, written as for a terminal (a:7) or as JSON,
// as in a body.
func KeyFromText(t *schema.Table, text string) (partition.Key, error) {
	types, names := t.KeyTypes()
	components, err := cqltype.KeyFromText(types, names, len(t.PartitionKey), text)
	if err != nil {
		return partition.Key{}, err
	}
	return partition.NewRowKey(len(t.PartitionKey), components...)
}
