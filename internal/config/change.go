package config

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
)

// File returns the name of the file that the configuration was read from, empty
// when there was none.
func (c *Config) File() string {
	if c.origin == nil {
		return ""
	}
	return c.origin.file
}

// Digest returns 12 hexadecimal digits that are equal for configurations with
// the same values, however written.
func (c *Config) Digest() string {
	text, err := c.YAML()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Changes returns the key paths whose values differ between two configurations,
// in the order of the reference. Any difference in tables is the one path
// tables; clients are not compared.
func Changes(a, b *Config) []string {
	before := map[string]string{}
	for path, v := range leaves(reflect.ValueOf(a).Elem()) {
		before[path] = leafText(v)
	}
	var changed []string
	for path, v := range leaves(reflect.ValueOf(b).Elem()) {
		if before[path] != leafText(v) {
			changed = append(changed, path)
		}
	}
	if !slices.EqualFunc(a.Tables, b.Tables, func(x, y Table) bool { return tableText(x) == tableText(y) }) {
		changed = append(changed, "tables")
	}
	return changed
}

// leafText returns a scalar or a list of scalars as YAML.
func leafText(v reflect.Value) string {
	var w writer
	w.value(v, "")
	return w.String()
}

// tableText returns a text of a table that leaves out what it inherits.
func tableText(t Table) string {
	var text strings.Builder
	v := reflect.ValueOf(t)
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.index)
		if field.Kind() == reflect.Pointer && field.IsNil() {
			continue
		}
		if f.name == "sla" {
			for _, part := range fieldsOf(field.Elem().Type()) {
				if p := field.Elem().FieldByIndex(part.index); !p.IsNil() {
					text.WriteString("sla." + part.name + ":" + leafText(p))
				}
			}
			continue
		}
		text.WriteString(f.name + ":" + leafText(field))
	}
	return text.String()
}
