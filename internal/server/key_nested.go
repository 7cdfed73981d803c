package server

import (
	"errors"
	"fmt"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
)

var (
	// errNullElement refuses a null in a collection, which CQL does not have.
	errNullElement = errors.New("null inside a collection")
	// errNestedCQL refuses raw bytes in a collection: they have no JSON form.
	errNestedCQL = errors.New("cql inside another value; give the whole component as cql")
)

// appendValueJSON appends a value as the JSON that cqltype reads.
func appendValueJSON(dst []byte, t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	if _, null := v.GetKind().(*qosproxyv1.Value_Null); null {
		return append(dst, "null"...), nil
	}
	if _, cql := v.GetKind().(*qosproxyv1.Value_Cql); cql {
		return dst, errNestedCQL
	}
	switch t.Kind {
	case cqltype.Map:
		return appendMapJSON(dst, t, v)
	case cqltype.List, cqltype.Set, cqltype.Tuple, cqltype.Vector:
		return appendArrayJSON(dst, t, v)
	case cqltype.UDT:
		return appendFieldsJSON(dst, t, v)
	default:
		cell, err := encodeValue(t, v)
		switch {
		case err != nil:
			return dst, err
		case len(cell) > partition.MaxKeyBytes: // converting a long varint to decimal takes seconds
			return dst, partition.ErrKeyTooLong
		}
		if t.Kind == cqltype.Decimal {
			// Quoted: Cassandra reads a bare number as a double, 1.50 as 1.5.
			dst, err = t.AppendJSON(append(dst, '"'), cell)
			return append(dst, '"'), err
		}
		return t.AppendJSON(dst, cell)
	}
}

// elementsOf returns the elements of a list, set, tuple or vector.
func elementsOf(t *cqltype.Type, v *qosproxyv1.Value) ([]*qosproxyv1.Value, error) {
	var list *qosproxyv1.ListValue
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_FloatVector:
		if t.Kind != cqltype.Vector || t.Elems[0].Kind != cqltype.Float {
			return nil, mismatch(t, v)
		}
		floats := kind.FloatVector.GetElements()
		values := make([]*qosproxyv1.Value, len(floats))
		for i, f := range floats {
			values[i] = &qosproxyv1.Value{Kind: &qosproxyv1.Value_Float{Float: f}}
		}
		return values, nil
	case *qosproxyv1.Value_List:
		list = kind.List
	case *qosproxyv1.Value_Set:
		list = kind.Set
	case *qosproxyv1.Value_Tuple:
		list = kind.Tuple
	case *qosproxyv1.Value_Vector:
		list = kind.Vector
	}
	expected := map[cqltype.Kind]string{cqltype.List: "list", cqltype.Set: "set", cqltype.Tuple: "tuple", cqltype.Vector: "vector"}[t.Kind]
	if list == nil || kindName(v) != expected {
		return nil, mismatch(t, v)
	}
	return list.GetElements(), nil
}

func appendArrayJSON(dst []byte, t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	elements, err := elementsOf(t, v)
	if err != nil {
		return dst, err
	}
	if t.Kind == cqltype.Tuple && len(elements) != len(t.Elems) {
		return dst, fmt.Errorf("expected %s with %d elements, got %d", t, len(t.Elems), len(elements))
	}
	dst = append(dst, '[')
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		elem := t.Elems[0]
		if t.Kind == cqltype.Tuple {
			elem = t.Elems[i]
		} else if isNull(e) {
			return dst, errNullElement
		}
		if dst, err = appendValueJSON(dst, elem, e); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func isNull(v *qosproxyv1.Value) bool {
	_, null := v.GetKind().(*qosproxyv1.Value_Null)
	return null
}

func appendMapJSON(dst []byte, t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	if v.GetMap() == nil {
		return dst, mismatch(t, v)
	}
	dst = append(dst, '{')
	for i, entry := range v.GetMap().GetEntries() {
		if isNull(entry.GetKey()) || isNull(entry.GetValue()) {
			return dst, errNullElement
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		key, err := appendValueJSON(nil, t.Elems[0], entry.GetKey())
		if err != nil {
			return dst, err
		}
		// The name of a JSON member is a string: quote any other JSON.
		if len(key) > 0 && key[0] != '"' {
			key = cqltype.AppendJSONString(nil, string(key))
		}
		dst = append(append(dst, key...), ':')
		if dst, err = appendValueJSON(dst, t.Elems[1], entry.GetValue()); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendFieldsJSON(dst []byte, t *cqltype.Type, v *qosproxyv1.Value) ([]byte, error) {
	fields := v.GetUdt().GetFields()
	if v.GetUdt() == nil {
		return dst, mismatch(t, v)
	}
	if len(fields) > len(t.Fields) {
		return dst, fmt.Errorf("expected %s with at most %d fields, got %d", t, len(t.Fields), len(fields))
	}
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = cqltype.AppendJSONString(dst, cqltype.ColumnJSONName(t.Fields[i]))
		dst = append(dst, ':')
		var err error
		if dst, err = appendValueJSON(dst, t.Elems[i], f); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}
