package cassandra

import (
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// check compares the columns of a result with those that its statement selects, down to the
// innermost type. They differ while a table that was dropped and created anew with other types is
// not yet in the snapshot; its cells must not be decoded as the old types. The error is errStale.
func (s *selection) check(selected []schema.Column, got []gocql.ColumnInfo) error {
	if len(got) != len(selected) {
		return fmt.Errorf("%w: %d columns of %s came instead of %d", errStale, len(got), s.table, len(selected))
	}
	for i, c := range selected {
		came, err := serverType(got[i].TypeInfo)
		if err != nil {
			return fmt.Errorf("%w: column %s of %s: %w", errStale, c.Name, s.table, err)
		}
		if !c.Type.Decodes(came) {
			return fmt.Errorf("%w: column %s of %s is %s and no longer %s", errStale, c.Name, s.table, came, c.Type)
		}
	}
	return nil
}

// serverType returns the type in the metadata of a result. It must not be modified.
func serverType(t gocql.TypeInfo) (*cqltype.Type, error) {
	raw, ok := t.(rawType)
	if !ok {
		if native, ok := nativeTypes[t.Type()]; ok {
			return native, nil
		}
		return nil, fmt.Errorf("protocol type %#x is not known", int(t.Type()))
	}
	if raw.typ == gocql.TypeCustom {
		class := raw.class
		if raw.arguments != "" {
			class += "(" + raw.arguments + ")"
		}
		return cqltype.ParseClass(class)
	}
	out := &cqltype.Type{Kind: rawKinds[raw.typ]}
	if out.Kind == cqltype.UDT && len(raw.params) > 1 {
		out.Keyspace, _ = raw.params[0].(string)
		out.Name, _ = raw.params[1].(string)
	}
	for _, p := range raw.params {
		if err := addElements(out, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addElements adds the types in one parameter of a type: an element, those of a tuple, or the
// fields of a user-defined type.
func addElements(to *cqltype.Type, param any) error {
	add := func(t gocql.TypeInfo) error {
		e, err := serverType(t)
		to.Elems = append(to.Elems, e)
		return err
	}
	switch p := param.(type) {
	case gocql.TypeInfo:
		return add(p)
	case []gocql.TypeInfo:
		for _, t := range p {
			if err := add(t); err != nil {
				return err
			}
		}
	case []gocql.UDTField:
		for _, f := range p {
			to.Fields = append(to.Fields, f.Name)
			if err := add(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawKinds maps the protocol's code of each type with parameters to its kind.
var rawKinds = map[gocql.Type]cqltype.Kind{
	gocql.TypeList: cqltype.List, gocql.TypeSet: cqltype.Set, gocql.TypeMap: cqltype.Map,
	gocql.TypeTuple: cqltype.Tuple, gocql.TypeUDT: cqltype.UDT,
}

// nativeTypes maps the code of each type without parameters to the type.
var nativeTypes = func() map[gocql.Type]*cqltype.Type {
	out := make(map[gocql.Type]*cqltype.Type)
	for code, kind := range map[gocql.Type]cqltype.Kind{
		gocql.TypeAscii: cqltype.ASCII, gocql.TypeBigInt: cqltype.BigInt, gocql.TypeBlob: cqltype.Blob,
		gocql.TypeBoolean: cqltype.Boolean, gocql.TypeCounter: cqltype.Counter, gocql.TypeDate: cqltype.Date,
		gocql.TypeDecimal: cqltype.Decimal, gocql.TypeDouble: cqltype.Double, gocql.TypeDuration: cqltype.Duration,
		gocql.TypeFloat: cqltype.Float, gocql.TypeInet: cqltype.Inet, gocql.TypeInt: cqltype.Int,
		gocql.TypeSmallInt: cqltype.SmallInt, gocql.TypeText: cqltype.Text, gocql.TypeVarchar: cqltype.Text,
		gocql.TypeTime: cqltype.Time, gocql.TypeTimestamp: cqltype.Timestamp, gocql.TypeTimeUUID: cqltype.TimeUUID,
		gocql.TypeTinyInt: cqltype.TinyInt, gocql.TypeUUID: cqltype.UUID, gocql.TypeVarint: cqltype.VarInt,
	} {
		out[code] = &cqltype.Type{Kind: kind}
	}
	return out
}()
