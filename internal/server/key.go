package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// errUnset refuses a key component without a kind.
var errUnset = errors.New("the value is unset; a key needs a value in every component")

// keyField names the key at i in errors.
func keyField(i int) string { return fmt.Sprintf("keys[%d]", i) }

// jsonKeys returns the encoder of keys in JSON.
func jsonKeys(t *schema.Table, keys []json.RawMessage) keyEncoder {
	types, names := t.KeyTypes()
	return func(i int) (partition.Key, error) {
		components, err := cqltype.KeyFromJSON(types, names, len(t.PartitionKey), keys[i])
		if err != nil {
			return partition.Key{}, err
		}
		return partition.NewRowKey(len(t.PartitionKey), components...)
	}
}

// pathKey returns the encoder of the key in a path.
func pathKey(t *schema.Table, key string) keyEncoder {
	return func(int) (partition.Key, error) {
		if len(t.PartitionKey) != 1 {
			return partition.Key{}, lookup.Invalid("key",
				"the partition key of %s has %d columns; a path takes a single one: POST the key to %s instead", t, len(t.PartitionKey), batchGetVerb)
		}
		component, err := t.PartitionKey[0].Type.EncodeText(key)
		if err != nil {
			return partition.Key{}, lookup.Invalid("key", "%s", err)
		}
		k, err := partition.NewKey(component)
		if err != nil {
			return partition.Key{}, lookup.Invalid("key", "%s", err)
		}
		return k, nil
	}
}

// wireKeys returns the encoder of keys that are encoded qosproxy.v1.Key
// messages.
func wireKeys(t *schema.Table, keys [][]byte) keyEncoder {
	width := len(t.PartitionKey) + len(t.Clustering)
	all := make([][]byte, width*len(keys)) // the components of all keys
	return func(i int) (partition.Key, error) {
		components := all[i*width : i*width : (i+1)*width]
		if text, ok := loneText(t, keys[i]); ok {
			return partition.NewKey(append(components, text)...)
		}
		var key qosproxyv1.Key
		if err := proto.Unmarshal(keys[i], &key); err != nil {
			return partition.Key{}, errors.New("not a valid message of type qosproxy.v1.Key")
		}
		return valueKey(t, key.GetComponents(), components)
	}
}

// loneText returns the cell of an encoded key that consists of one text, as most
// do; ok is false for any other key, and for an invalid one.
func loneText(t *schema.Table, key []byte) (cell []byte, ok bool) {
	if len(t.PartitionKey) != 1 || t.PartitionKey[0].Type.Kind != cqltype.Text {
		return nil, false
	}
	value, ok := lone(key, keyComponents)
	if !ok {
		return nil, false
	}
	text, ok := lone(value, kindText)
	return text, ok && utf8.Valid(text)
}

// valueKey encodes one key into the memory of components.
func valueKey(t *schema.Table, values []*qosproxyv1.Value, components [][]byte) (partition.Key, error) {
	if least, most := len(t.PartitionKey), len(t.PartitionKey)+len(t.Clustering); len(values) < least || len(values) > most {
		_, names := t.KeyTypes()
		if least == most {
			return partition.Key{}, fmt.Errorf("expected %d components (%s), got %d", least, strings.Join(names, ", "), len(values))
		}
		return partition.Key{}, fmt.Errorf("expected %d to %d components (%s, of which the last %d are clustering columns), got %d",
			least, most, strings.Join(names, ", "), most-least, len(values))
	}
	for i, v := range values {
		column := t.KeyColumn(i)
		cell, err := encodeValue(column.Type, v)
		if err != nil {
			return partition.Key{}, fmt.Errorf("column %q: %w", column.Name, err)
		}
		components = append(components, cell)
	}
	return partition.NewRowKey(len(t.PartitionKey), components...)
}

// encodeValue returns a value as Cassandra serializes it; nil for a null.
func encodeValue(t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	switch kind := v.GetKind().(type) {
	case nil:
		return nil, errUnset
	case *qosproxyv1.Value_Null:
		return nil, nil
	case *qosproxyv1.Value_Cql:
		return checked(t, kind.Cql)
	case *qosproxyv1.Value_Empty:
		return checked(t, []byte{})
	}
	switch t.Kind {
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.Tuple, cqltype.UDT, cqltype.Vector:
		// Through JSON, whose encoder already orders sets and maps as
		// Cassandra's comparators do: the token of a key depends on the order.
		text, err := appendValueJSON(nil, t, v)
		if err != nil {
			return nil, err
		}
		return t.EncodeJSON(text)
	default:
		cell, err := encodeScalar(t, v)
		if err != nil {
			return nil, err
		}
		return checked(t, cell)
	}
}

// checked returns the bytes, never nil, if they are a valid value of the type.
func checked(t *cqltype.Type, cell []byte) ([]byte, error) {
	if cell == nil {
		cell = []byte{}
	}
	if err := t.Validate(cell); err != nil {
		return nil, err
	}
	return cell, nil
}

// mismatch says which type was expected and which kind came.
func mismatch(t *cqltype.Type, v *qosproxyv1.Value) error {
	return fmt.Errorf("expected %s, got %s", t, kindName(v))
}

// kindName names the kind of a value as the proto does.
func kindName(v *qosproxyv1.Value) string {
	m := v.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind")); f != nil {
		return string(f.Name())
	}
	return "unset"
}
