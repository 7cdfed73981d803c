package cassandra

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// rawCell receives the bytes of a cell unchanged. They point into the driver's
// frame and must be copied to be kept. Nil is null.
type rawCell []byte

// UnmarshalCQL implements gocql.Unmarshaler.
func (c *rawCell) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	*c = data
	return nil
}

// rawValue sends bytes that are serialized already.
type rawValue []byte

// MarshalCQL implements gocql.Marshaler.
func (v rawValue) MarshalCQL(gocql.TypeInfo) ([]byte, error) { return v, nil }

// rawList returns a CQL list of serialized values.
func rawList(values [][]byte) rawValue {
	n := 4
	for _, v := range values {
		n += 4 + len(v)
	}
	out := make(rawValue, 0, n)
	out = binary.BigEndian.AppendUint32(out, uint32(len(values)))
	for _, v := range values {
		out = binary.BigEndian.AppendUint32(out, uint32(len(v)))
		out = append(out, v...)
	}
	return out
}

// rawType stands for a type with parameters. Its values stay bytes, except that
// collections of text, which is what system tables hold, are decoded to Go values
// when scanned into an any. The driver's own types would not do: it spreads a
// tuple over one destination per element, so that a null tuple and one of nulls
// look the same, and it knows no custom types at all.
type rawType struct {
	typ gocql.Type
	// shape returns the values that the driver reads the parameters into, nil for
	// a type without; params are those that it has read.
	shape  func() []any
	params []any
	// class is the name of the class of a custom type, without its package.
	// arguments are the text in its parentheses.
	class, arguments string
	// texts is whether all parameters are text.
	texts bool
}

var (
	_ gocql.CQLType  = rawType{}
	_ gocql.TypeInfo = rawType{}
)

// Type returns the protocol's code of the type. A tuple returns TypeCustom:
// otherwise the driver would take it for its own kind.
func (t rawType) Type() gocql.Type {
	if t.typ == gocql.TypeTuple {
		return gocql.TypeCustom
	}
	return t.typ
}

// Zero returns the value of a null that is scanned into an any. It must not be
// nil: the driver reflects on it, and expects the tokens of a host, null while it
// is joining, to be strings.
func (t rawType) Zero() any {
	switch {
	case t.texts && (t.typ == gocql.TypeList || t.typ == gocql.TypeSet):
		return []string(nil)
	case t.texts && t.typ == gocql.TypeMap:
		return map[string]string(nil)
	}
	return []byte(nil)
}

// Marshal refuses: values of such types are sent as rawValue.
func (t rawType) Marshal(value any) ([]byte, error) {
	return nil, fmt.Errorf("send a %T as a value of protocol type %#x: it is not serialized", value, int(t.typ))
}

// Unmarshal stores a []string, a map[string]string or a copy of the bytes in an
// *any; Zero for null.
func (t rawType) Unmarshal(data []byte, value any) error {
	dst, ok := value.(*any)
	if !ok {
		return fmt.Errorf("take a value of protocol type %#x into a %T", int(t.typ), value)
	}
	*dst = t.Zero()
	if data == nil {
		return nil
	}
	var err error
	switch {
	case t.texts && (t.typ == gocql.TypeList || t.typ == gocql.TypeSet):
		*dst, err = texts(data, 1)
	case t.texts && t.typ == gocql.TypeMap:
		*dst, err = textMap(data)
	default:
		*dst = bytes.Clone(data)
	}
	return err
}

// Params returns what follows the code of the type in result metadata, so that
// the driver can read past it.
func (t rawType) Params(int) []any {
	if t.shape == nil {
		return nil
	}
	return t.shape()
}

// TypeInfoFromParams returns the type with the parameters that were read.
func (t rawType) TypeInfoFromParams(_ int, params []any) (gocql.TypeInfo, error) {
	t.texts, t.params = len(params) > 0, params
	for _, p := range params {
		elem, ok := p.(gocql.TypeInfo)
		t.texts = t.texts && ok && elem.Type() == gocql.TypeVarchar
	}
	return t, nil
}

// TypeInfoFromString returns the type with the text in the parentheses of its
// class. It does not parse the text: a goroutine of the driver calls this.
func (t rawType) TypeInfoFromString(_ int, arguments string) (gocql.TypeInfo, error) {
	t.arguments = arguments
	return t, nil
}

// rawTypes returns the types of sessions that read raw cells. The driver adds the
// native types itself.
func rawTypes() (*gocql.RegisteredTypes, error) {
	one := func() []any { return []any{(*gocql.TypeInfo)(nil)} }
	two := func() []any { return []any{(*gocql.TypeInfo)(nil), (*gocql.TypeInfo)(nil)} }
	many := func() []any { return []any{[]gocql.TypeInfo(nil)} }
	udt := func() []any { return []any{"", "", []gocql.UDTField(nil)} }
	r := &gocql.RegisteredTypes{}
	for _, t := range []struct {
		name string
		rawType
	}{
		{"list", rawType{typ: gocql.TypeList, shape: one}},
		{"set", rawType{typ: gocql.TypeSet, shape: one}},
		{"map", rawType{typ: gocql.TypeMap, shape: two}},
		{"tuple", rawType{typ: gocql.TypeTuple, shape: many}},
		{"udt", rawType{typ: gocql.TypeUDT, shape: udt}},
	} {
		if err := r.RegisterType(t.typ, t.name, t.rawType); err != nil {
			return nil, err
		}
	}
	// These are sent by class name: vectors always, durations before protocol 5,
	// the others in tables that were created by Thrift.
	for _, class := range []string{
		"VectorType", "DurationType", "EmptyType", "CompositeType", "DynamicCompositeType", "FrozenType",
		"ReversedType", "LexicalUUIDType", "DateType", "PartitionerDefinedOrder", "ColumnToCollectionType",
	} {
		if err := r.RegisterCustom(class, rawType{typ: gocql.TypeCustom, class: class}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// errCell means bytes that are not a collection.
var errCell = errors.New("malformed collection")

// textMap reads a map<text, text>.
func textMap(cell []byte) (map[string]string, error) {
	all, err := texts(cell, 2)
	if err != nil {
		return nil, err
	}
	m := make(map[string]string, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		m[all[i]] = all[i+1]
	}
	return m, nil
}

// texts reads a collection with per texts in each entry.
func texts(cell []byte, per int) ([]string, error) {
	n, cell, err := cellInt(cell)
	if err != nil || n < 0 || n > len(cell) {
		return nil, errCell
	}
	out := make([]string, 0, n*per)
	for range n * per {
		var size int
		if size, cell, err = cellInt(cell); err != nil || size < 0 || size > len(cell) {
			return nil, errCell
		}
		out = append(out, string(cell[:size]))
		cell = cell[size:]
	}
	return out, nil
}

func cellInt(cell []byte) (int, []byte, error) {
	if len(cell) < 4 {
		return 0, nil, errCell
	}
	return int(int32(binary.BigEndian.Uint32(cell))), cell[4:], nil
}
