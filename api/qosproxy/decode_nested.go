package qosproxy

import (
	"fmt"
	"reflect"
	"strconv"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// elementsOf returns the elements of a list, set, tuple or vector.
func elementsOf(v *qosproxyv1.Value) []*qosproxyv1.Value {
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_List:
		return kind.List.GetElements()
	case *qosproxyv1.Value_Set:
		return kind.Set.GetElements()
	case *qosproxyv1.Value_Tuple:
		return kind.Tuple.GetElements()
	case *qosproxyv1.Value_Vector:
		return kind.Vector.GetElements()
	case *qosproxyv1.Value_FloatVector:
		out := make([]*qosproxyv1.Value, len(kind.FloatVector.GetElements()))
		for i, f := range kind.FloatVector.GetElements() {
			out[i] = &qosproxyv1.Value{Kind: &qosproxyv1.Value_Float{Float: f}}
		}
		return out
	default:
		return nil
	}
}

// elementType returns the type of the i-th element; nil if the type does not have it.
func elementType(t *qosproxyv1.Type, i int) *qosproxyv1.Type {
	if i < len(t.GetElements()) {
		return t.GetElements()[i]
	}
	return nil
}

// storeElements stores a list, set or vector.
func storeElements(t *qosproxyv1.Type, v *qosproxyv1.Value, dst reflect.Value) error {
	if floats := v.GetFloatVector(); floats != nil && dst.Type() == reflect.TypeFor[[]float32]() {
		dst.Set(reflect.ValueOf(floats.GetElements()))
		return nil
	}
	return storeSlice(elementsOf(v), dst, func(int) *qosproxyv1.Type { return elementType(t, 0) }, t)
}

// storeSlice stores elements in a slice, or in an array of the same length.
func storeSlice(elements []*qosproxyv1.Value, dst reflect.Value, typ func(i int) *qosproxyv1.Type, of *qosproxyv1.Type) error {
	switch dst.Kind() {
	case reflect.Slice:
		dst.Set(reflect.MakeSlice(dst.Type(), len(elements), len(elements)))
	case reflect.Array:
		if dst.Len() != len(elements) {
			return fmt.Errorf("a %s of %d elements does not go into %s", of.GetName(), len(elements), dst.Type())
		}
	default:
		return mismatch(of, dst)
	}
	for i, e := range elements {
		if err := store(typ(i), e, dst.Index(i)); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// storeTuple stores a tuple in the fields of a struct, by position, or in a slice.
func storeTuple(t *qosproxyv1.Type, elements []*qosproxyv1.Value, dst reflect.Value) error {
	if dst.Kind() != reflect.Struct {
		return storeSlice(elements, dst, func(i int) *qosproxyv1.Type { return elementType(t, i) }, t)
	}
	return storePositions(t, elements, dst)
}

// storePositions stores values in the exported fields of a struct, by position. Their
// numbers must be equal.
func storePositions(t *qosproxyv1.Type, values []*qosproxyv1.Value, dst reflect.Value) error {
	n := 0
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		if n < len(values) {
			if err := store(elementType(t, n), values[n], dst.Field(i)); err != nil {
				return fmt.Errorf("element %d: %w", n, err)
			}
		}
		n++
	}
	if n != len(values) {
		return fmt.Errorf("a %s has %d elements, %s has %d exported fields", t.GetName(), len(values), dst.Type(), n)
	}
	return nil
}

// storeMap stores a map in a Go map or in a slice of structs with two fields. The slice
// accepts keys that a Go map cannot have.
func storeMap(t *qosproxyv1.Type, entries []*qosproxyv1.MapEntry, dst reflect.Value) error {
	if dst.Kind() == reflect.Slice && dst.Type().Elem().Kind() == reflect.Struct {
		dst.Set(reflect.MakeSlice(dst.Type(), len(entries), len(entries)))
		for i, e := range entries {
			if err := storePositions(t, []*qosproxyv1.Value{e.GetKey(), e.GetValue()}, dst.Index(i)); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
		}
		return nil
	}
	if dst.Kind() != reflect.Map {
		return mismatch(t, dst)
	}
	m := reflect.MakeMapWithSize(dst.Type(), len(entries))
	for i, e := range entries {
		k, v := reflect.New(dst.Type().Key()).Elem(), reflect.New(dst.Type().Elem()).Elem()
		if err := store(elementType(t, 0), e.GetKey(), k); err != nil {
			return fmt.Errorf("key of entry %d: %w", i, err)
		}
		if !k.Comparable() {
			return fmt.Errorf("a Go map cannot have the keys of a %s; take a slice of structs with two fields", t.GetName())
		}
		if err := store(elementType(t, 1), e.GetValue(), v); err != nil {
			return fmt.Errorf("value of entry %d: %w", i, err)
		}
		m.SetMapIndex(k, v)
	}
	dst.Set(m)
	return nil
}

// storeFields stores a value of a user-defined type in a struct with cql tags, or in a
// map from field names.
func storeFields(t *qosproxyv1.Type, values []*qosproxyv1.Value, dst reflect.Value) error {
	if dst.Kind() == reflect.Map && dst.Type().Key().Kind() == reflect.String {
		m := reflect.MakeMapWithSize(dst.Type(), len(values))
		for i, v := range values {
			value := reflect.New(dst.Type().Elem()).Elem()
			if err := store(elementType(t, i), v, value); err != nil {
				return fmt.Errorf("field %s: %w", fieldName(t, i), err)
			}
			m.SetMapIndex(reflect.ValueOf(fieldName(t, i)).Convert(dst.Type().Key()), value)
		}
		dst.Set(m)
		return nil
	}
	if dst.Kind() != reflect.Struct {
		return mismatch(t, dst)
	}
	fields, err := fieldsOf(dst.Type())
	if err != nil {
		return err
	}
	dst.SetZero()
	for _, f := range fields {
		i := position(t, f.column)
		if i < 0 {
			return fmt.Errorf("%s.%s takes the field %s, which a %s has not", dst.Type(), f.name, f.column, t.GetName())
		}
		if i < len(values) { // Fields that were added to the type later may be missing.
			if err := store(elementType(t, i), values[i], dst.FieldByIndex(f.index)); err != nil {
				return fmt.Errorf("field %s: %w", f.column, err)
			}
		}
	}
	return nil
}

func fieldName(t *qosproxyv1.Type, i int) string {
	if i < len(t.GetFieldNames()) {
		return t.GetFieldNames()[i]
	}
	return strconv.Itoa(i)
}

func position(t *qosproxyv1.Type, field string) int {
	for i, name := range t.GetFieldNames() {
		if name == field {
			return i
		}
	}
	return -1
}

// natural returns a value as the Go type that suits it best.
func natural(t *qosproxyv1.Type, v *qosproxyv1.Value) (any, error) {
	into := func(dst any) (any, error) {
		to := reflect.ValueOf(dst).Elem()
		err := store(t, v, to)
		return to.Interface(), err
	}
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Text:
		return kind.Text, nil
	case *qosproxyv1.Value_Int:
		return kind.Int, nil
	case *qosproxyv1.Value_Bigint:
		return kind.Bigint, nil
	case *qosproxyv1.Value_Double:
		return kind.Double, nil
	case *qosproxyv1.Value_Float:
		return kind.Float, nil
	case *qosproxyv1.Value_Boolean:
		return kind.Boolean, nil
	case *qosproxyv1.Value_Varint:
		return bigInt(kind.Varint), nil
	case *qosproxyv1.Value_Decimal:
		return decimalOf(kind.Decimal), nil
	case *qosproxyv1.Value_Duration:
		return spanOf(kind.Duration), nil
	case *qosproxyv1.Value_Empty:
		return Empty{}, nil
	case *qosproxyv1.Value_FloatVector:
		return kind.FloatVector.GetElements(), nil
	case *qosproxyv1.Value_Uuid:
		return into(new([16]byte))
	case *qosproxyv1.Value_Timestamp, *qosproxyv1.Value_Date:
		return into(newOf(momentType))
	case *qosproxyv1.Value_Time:
		return into(newOf(durationType))
	case *qosproxyv1.Value_Inet:
		return into(newOf(addrType))
	case *qosproxyv1.Value_List, *qosproxyv1.Value_Set, *qosproxyv1.Value_Vector, *qosproxyv1.Value_Tuple:
		return into(new([]any))
	case *qosproxyv1.Value_Map:
		return into(new(map[any]any))
	case *qosproxyv1.Value_Udt:
		return into(new(map[string]any))
	default:
		return into(new([]byte))
	}
}

func newOf(t reflect.Type) any { return reflect.New(t).Interface() }
