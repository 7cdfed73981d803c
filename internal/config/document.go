package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// The limits of a Document, larger since it may hold data.
const (
	maxDocumentBytes = 16 << 20
	maxDocumentNodes = 4_000_000
)

// JSON is any value of a YAML file, as JSON text. A number keeps its digits. A value that JSON
// cannot express, such as 0xcafe or .inf, becomes a string.
type JSON []byte

// Entry is one key of a mapping whose keys are not known beforehand.
type Entry struct {
	// Name is the key, and Value its value; null when it has none.
	Name  string
	Value JSON
}

// Entries are the entries of such a mapping in the order of the file, each key once. Those merged
// by << come first.
type Entries []Entry

var (
	jsonType    = reflect.TypeFor[JSON]()
	entriesType = reflect.TypeFor[Entries]()
)

// Document is a YAML file that is not the configuration and is read by the same rules: unknown
// keys and wrong types are mistakes with file, line and key.
type Document struct{ origin *origin }

// ParseDocument sets dst, a pointer to a struct with yaml tags, from the text of a file. A field
// may have the types that a Config uses, JSON or Entries. name is that of the file, for messages.
// The error joins one *Error for each mistake; the Document is not nil even then.
func ParseDocument(data []byte, name string, dst any) (*Document, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	o := &origin{file: name, at: map[string]place{}, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	d := &decoder{origin: o, anchors: map[string]ast.Node{}, maxBytes: maxDocumentBytes, maxNodes: maxDocumentNodes}
	d.document(reflect.ValueOf(dst).Elem(), []byte(text))
	return &Document{o}, join(d.problems)
}

// Problem returns a mistake in the key at a path, such as tables[0].rows[2].price, with its place
// in the file.
func (d *Document) Problem(path, format string, args ...any) *Error {
	return d.origin.problem(path, format, args...)
}

// Join sorts mistakes by their place in the file and joins them to one error; nil for none.
func Join(problems []*Error) error { return join(problems) }

// entries sets dst from a mapping with arbitrary keys.
func (d *decoder) entries(dst reflect.Value, node ast.Node, path string) {
	mapping, ok := entriesOf(node)
	if !ok {
		d.refuse(path, start(node), "is a %s; it must be a mapping, such as {name: value}", kindOf(node))
		return
	}
	var out Entries
	set := func(e Entry) {
		if i := slices.IndexFunc(out, func(o Entry) bool { return o.Name == e.Name }); i >= 0 {
			out[i] = e
			return
		}
		out = append(out, e)
	}
	for _, e := range mapping {
		if e.Key != nil && e.Key.Type() == ast.MergeKeyType {
			merged := reflect.New(entriesType).Elem()
			d.mergeEntries(merged, e, path)
			for _, m := range merged.Interface().(Entries) {
				set(m)
			}
		}
	}
	for _, e := range mapping {
		if e.Key == nil || e.Key.Type() == ast.MergeKeyType {
			continue
		}
		at := child(path, keyOf(e.Key))
		d.origin.at[at] = start(e.Key)
		set(Entry{keyOf(e.Key), d.json(e.Value, at)})
	}
	dst.Set(reflect.ValueOf(out))
}

// mergeEntries sets dst from the mapping that << names.
func (d *decoder) mergeEntries(dst reflect.Value, e *ast.MappingValueNode, path string) {
	from, ok := d.resolve(e.Value, path)
	if !ok {
		return
	}
	if d.merges++; d.merges > maxMerges {
		d.refuse(path, start(e.Key), "<< nests more than %d mappings, or merges one into itself", maxMerges)
	} else {
		d.entries(dst, from, path)
	}
	d.merges--
}

// json returns the JSON of a node; null after a mistake.
func (d *decoder) json(node ast.Node, path string) JSON {
	if node == nil {
		return JSON("null")
	}
	node, ok := d.resolve(node, path)
	if !ok || node == nil {
		return JSON("null")
	}
	var b bytes.Buffer
	switch n := node.(type) {
	case *ast.NullNode:
		return JSON("null")
	case *ast.BoolNode:
		return JSON(strconv.FormatBool(n.Value))
	case *ast.IntegerNode, *ast.FloatNode:
		return number(n.GetToken().Value)
	case *ast.InfinityNode:
		if n.Value < 0 {
			return JSON(`"-Infinity"`)
		}
		return JSON(`"Infinity"`)
	case *ast.NanNode:
		return JSON(`"NaN"`)
	case *ast.SequenceNode:
		for i, item := range n.Values {
			b.WriteString([...]string{"[", ","}[min(i, 1)])
			b.Write(d.json(item, path))
		}
		if len(n.Values) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
		return b.Bytes()
	}
	if mapping, ok := entriesOf(node); ok {
		return d.jsonObject(mapping, path)
	}
	text, _, ok := scalarOf(node)
	if !ok {
		d.refuse(path, start(node), "has no form in JSON")
	}
	return quoted(text)
}

// jsonObject returns the JSON of a mapping.
func (d *decoder) jsonObject(mapping []*ast.MappingValueNode, path string) JSON {
	b := bytes.NewBufferString("{")
	for i, e := range mapping {
		if i > 0 {
			b.WriteByte(',')
		}
		if e.Key == nil || e.Key.Type() == ast.MergeKeyType {
			d.refuse(path, start(e.Key), "<< merges into a row, not into a value of it")
			return JSON("null")
		}
		b.Write(quoted(keyOf(e.Key)))
		b.WriteByte(':')
		b.Write(d.json(e.Value, path))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// number returns a number as JSON, or its text as a JSON string if JSON has no such number.
func number(text string) JSON {
	if json.Valid([]byte(text)) {
		return JSON(text)
	}
	return quoted(text)
}

// quoted returns a text as a JSON string.
func quoted(text string) JSON {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // encoding a string cannot fail
	return bytes.TrimRight(b.Bytes(), "\n")
}
