package qosproxy

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Row is one row of a partition.
type Row struct {
	values  []*qosproxyv1.Value
	columns *columns
}

// Value returns the cell of a column undecoded, or nil if there is no such column. It
// must not be modified.
func (r Row) Value(column string) *qosproxyv1.Value {
	if r.columns == nil {
		return nil
	}
	i, ok := r.columns.named[column]
	if !ok || i >= len(r.values) {
		return nil
	}
	return r.values[i]
}

// Scan returns the rows of a key as values of the struct T: none if the key is not
// found, and a *KeyError if it was not answered. Fields with a tag like
//
//	Price float64 `cql:"price"`
//
// receive the column of that name, fields of embedded structs included. A field whose
// column is not in the answer is an error; a column without a field is ignored.
//
// A cell can be scanned into these types, and into types that are made of them:
//
//	ascii, text, varchar      string, []byte
//	integers, counter         any Go integer that the number fits in, *big.Int
//	varint                    the same
//	decimal                   Decimal, string
//	float, double             float64; a float also float32
//	boolean                   bool
//	blob, custom types        []byte
//	uuid, timeuuid            [16]byte, []byte, string
//	timestamp                 time.Time (UTC), int64 (milliseconds)
//	date                      time.Time (midnight UTC), int32 (days since 1970-01-01)
//	time                      time.Duration (since midnight)
//	inet                      netip.Addr, net.IP, string
//	duration                  Duration
//	list, set, vector         a slice, or an array of that length
//	map                       a map, or a slice of structs with two fields
//	tuple                     a struct with a field for each element, a slice
//	a user type               a struct with cql tags, a map with keys of type string
//	any                       any, *qosproxyv1.Value
//
// A field of type any receives the first type of the list, with these exceptions: *big.Int
// for a varint, int32 and int64 for other integers, []any for lists, sets, vectors and
// tuples, map[string]any for user types and map[any]any for maps.
//
// Null and an empty value both become the zero value. Where the difference matters,
// use a pointer: null becomes nil. Slices and bytes are parts of the answer and must
// not be modified.
func Scan[T any](r Result) ([]T, error) {
	return ScanWith[T](r, decode)
}

// Decoder stores a cell of a column of type t in the variable that dst points to.
type Decoder func(t *qosproxyv1.Type, cell *qosproxyv1.Value, dst any) error

// ScanWith is Scan with another decoder.
func ScanWith[T any](r Result, decoder Decoder) ([]T, error) {
	rows, err := r.Rows()
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	fields, err := fieldsOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	at := make([]int, len(fields))
	for i, f := range fields {
		column, ok := r.columns.named[f.column]
		if !ok {
			return nil, fmt.Errorf("qosproxy: %s.%s takes the column %s, which is not in the answer (%s)",
				reflect.TypeFor[T](), f.name, f.column, strings.Join(r.columns.names(), ", "))
		}
		at[i] = column
	}
	out := make([]T, len(rows))
	for n, row := range rows {
		v := reflect.ValueOf(&out[n]).Elem()
		for i, f := range fields {
			dst := v.FieldByIndex(f.index).Addr().Interface()
			if err := decoder(r.columns.list[at[i]].GetType(), row.values[at[i]], dst); err != nil {
				return nil, fmt.Errorf("qosproxy: column %s into %s.%s: %w", f.column, reflect.TypeFor[T](), f.name, err)
			}
		}
	}
	return out, nil
}

// Get returns one cell of a row as T, one of the types that Scan allows for a field.
func Get[T any](r Row, column string) (T, error) {
	var out T
	i, ok := r.columns.named[column]
	if !ok || i >= len(r.values) {
		return out, fmt.Errorf("qosproxy: there is no column %s in the answer (%s)", column, strings.Join(r.columns.names(), ", "))
	}
	if err := decode(r.columns.list[i].GetType(), r.values[i], &out); err != nil {
		return out, fmt.Errorf("qosproxy: column %s: %w", column, err)
	}
	return out, nil
}

func (c *columns) names() []string {
	names := make([]string, len(c.list))
	for i, column := range c.list {
		names[i] = column.GetName()
	}
	return names
}

// field is a field of a struct with a cql tag.
type field struct {
	name   string
	column string
	index  []int
}

// structs caches the fields of structs, by reflect.Type.
var structs sync.Map

// fieldsOf returns the fields of a struct that receive a column.
func fieldsOf(t reflect.Type) ([]field, error) {
	if known, ok := structs.Load(t); ok {
		return known.([]field), nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("qosproxy: rows are scanned into a struct with cql tags, not into %s", t)
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		column, tagged := f.Tag.Lookup("cql")
		if !tagged || column == "-" {
			continue
		}
		if !f.IsExported() {
			return nil, fmt.Errorf("qosproxy: %s.%s has a cql tag but is not exported", t, f.Name)
		}
		if throughPointer(t, f.Index) {
			return nil, fmt.Errorf("qosproxy: %s.%s is in an embedded pointer; embed the struct itself", t, f.Name)
		}
		fields = append(fields, field{f.Name, column, f.Index})
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("qosproxy: %s has no field with a tag like `cql:\"name\"`", t)
	}
	structs.Store(t, fields)
	return fields, nil
}

// throughPointer reports whether a field lies in an embedded pointer to a struct.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}
