package config

import (
	"iter"
	"reflect"
	"strings"
	"sync"
)

// field is one key of a mapping and its struct field.
type field struct {
	name  string
	index []int
}

var fieldCache sync.Map // reflect.Type → []field

// fieldsOf returns the keys of a struct in the order of its declaration,
// including those of inlined structs.
func fieldsOf(t reflect.Type) []field {
	if known, ok := fieldCache.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			for _, inner := range fieldsOf(f.Type) {
				fields = append(fields, field{inner.name, append([]int{i}, inner.index...)})
			}
		case name != "":
			fields = append(fields, field{name, []int{i}})
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

// names returns the keys of fields.
func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

// leaves yields every scalar and list of scalars below v, with its key path.
// Tables and clients are left out: their paths depend on the file.
func leaves(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) { walk(v, "", yield) }
}

func walk(v reflect.Value, path string, yield func(string, reflect.Value) bool) bool {
	switch {
	case isScalar(v.Type()):
		return yield(path, v)
	case v.Kind() == reflect.Slice:
		return !isScalar(v.Type().Elem()) || yield(path, v)
	}
	for _, f := range fieldsOf(v.Type()) {
		if !walk(v.FieldByIndex(f.index), child(path, f.name), yield) {
			return false
		}
	}
	return true
}

// child returns the path of a key below path.
func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
