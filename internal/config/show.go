package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
)

// YAML returns the configuration as a file that Parse reads: every key with its
// value, and inherited settings written out at each table. It holds no secret,
// and can be shown to anyone who may know the names of hosts and files.
func (c *Config) YAML() ([]byte, error) {
	full := *c
	full.Tables = make([]Table, len(c.Tables))
	for i := range c.Tables {
		full.Tables[i] = c.Tables[i]
		full.Tables[i].Overrides = overriding(c.Effective(&c.Tables[i]))
	}
	full.Clients = make([]Client, len(c.Clients))
	for i := range c.Clients {
		full.Clients[i] = c.Clients[i]
		share := c.Share(&c.Clients[i])
		full.Clients[i].Priority, full.Clients[i].BurstKeys = &share.Priority, share.BurstKeys
	}
	var w writer
	w.mapping(reflect.ValueOf(full), "", "")
	return []byte(w.String()), w.err
}

// writer writes values as YAML in block style.
type writer struct {
	strings.Builder
	err error
}

// mapping writes the keys of a struct, the first after lead and the others after
// indent.
func (w *writer) mapping(v reflect.Value, lead, indent string) {
	for _, f := range fieldsOf(v.Type()) {
		w.WriteString(lead + f.name + ":")
		w.value(v.FieldByIndex(f.index), indent+"  ")
		lead = indent
	}
}

// value writes what comes after a key and its colon.
func (w *writer) value(v reflect.Value, indent string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case isScalar(v.Type()):
		w.WriteString(" " + w.scalar(v) + "\n")
	case v.Kind() == reflect.Struct:
		w.WriteString("\n")
		w.mapping(v, indent, indent)
	case isEither(v.Type()) && v.Len() < 2:
		name := reflect.New(v.Type().Elem()).Elem()
		if v.Len() == 1 {
			name = v.Index(0)
		}
		w.WriteString(" " + w.scalar(name) + "\n")
	case v.Len() == 0:
		w.WriteString(" []\n")
	case isScalar(v.Type().Elem()):
		items := make([]string, v.Len())
		for i := range items {
			items[i] = w.scalar(v.Index(i))
		}
		w.WriteString(" [" + strings.Join(items, ", ") + "]\n")
	default:
		w.WriteString("\n")
		for i := range v.Len() {
			w.mapping(v.Index(i), indent+"- ", indent+"  ")
		}
	}
}

// plain matches texts that need no quotes, even in lists.
var plain = regexp.MustCompile(`^[A-Za-z0-9/-][A-Za-z0-9_./:%()-]*$`)

// notString matches those of them that YAML would not read as a string.
var notString = regexp.MustCompile(`(?i)^(null|true|false|-.*|.*:|[0-9_]+(\.[0-9_]*)?|0x.*|0o.*|[0-9.]+e.*)$`)

// scalar returns the text of one value, in quotes where YAML needs them.
func (w *writer) scalar(v reflect.Value) string {
	text, err := scalarText(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	if plain.MatchString(text) && (v.Kind() != reflect.String || !notString.MatchString(text)) {
		return text
	}
	quoted, err := json.Marshal(text) // a JSON string is valid YAML
	if err != nil && w.err == nil {
		w.err = err
	}
	return string(quoted)
}
