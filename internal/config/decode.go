package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/qosproxy/qosproxy/internal/suggest"
)

// decoder sets a Config from a YAML document. It goes on after a mistake, so
// that one run shows all of them, and it records the place of every value.
type decoder struct {
	origin   *origin
	anchors  map[string]ast.Node
	problems []*Error
	nodes    int
	merges   int
	// maxBytes and maxNodes are the limits of the file.
	maxBytes, maxNodes int
}

// document sets dst, a struct, from the text of a file.
func (d *decoder) document(dst reflect.Value, data []byte) {
	if len(data) > d.maxBytes {
		d.refuse("", place{}, "is larger than %s; is it the right file?", Bytes(d.maxBytes))
		return
	}
	if line := tooDeep(data); line > 0 {
		d.refuse("", place{line: line, column: 1}, "is nested deeper than any key; look for an open bracket or quote")
		return
	}
	file, err := parse(data)
	if err != nil {
		d.syntax(err)
		return
	}
	for i, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if i > 0 {
			d.refuse("", start(doc.Body), "a second YAML document begins here; put everything into one")
			return
		}
		d.value(dst, doc.Body, "")
	}
}

// syntax records an error of the parser.
func (d *decoder) syntax(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		d.refuse("", placeOf(at.GetToken()), "%s", at.GetMessage())
		return
	}
	d.refuse("", place{}, "%s", err)
}

// value sets dst from a node. Null leaves it as it is, so that a key whose
// values are all commented out keeps the defaults.
func (d *decoder) value(dst reflect.Value, node ast.Node, path string) {
	node, ok := d.resolve(node, path)
	if !ok || node == nil || node.Type() == ast.NullType {
		return
	}
	if _, given := d.origin.at[path]; !given || isScalar(dst.Type()) {
		d.origin.at[path] = start(node)
	}
	switch {
	case dst.Type() == jsonType:
		dst.Set(reflect.ValueOf(d.json(node, path)))
	case dst.Type() == entriesType:
		d.entries(dst, node, path)
	case dst.Kind() == reflect.Pointer:
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		d.value(dst.Elem(), node, path)
	case isScalar(dst.Type()):
		d.scalar(dst, node, path)
	case dst.Kind() == reflect.Slice:
		if text, _, single := scalarOf(node); single && isEither(dst.Type()) {
			one(dst, text)
			return
		}
		d.list(dst, node, path)
	default:
		d.mapping(dst, node, path)
	}
}

// resolve follows anchors and aliases to the node that holds the value. It
// reports false after a mistake.
func (d *decoder) resolve(node ast.Node, path string) (ast.Node, bool) {
	if d.nodes++; d.nodes > d.maxNodes {
		if d.nodes == d.maxNodes+1 {
			d.refuse(path, start(node), "the file is too large once its aliases are expanded")
		}
		return nil, false
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		value, ok := d.resolve(n.Value, path)
		d.anchors[n.Name.GetToken().Value] = value
		return value, ok
	case *ast.AliasNode:
		value, ok := d.anchors[n.Value.GetToken().Value]
		if !ok {
			d.refuse(path, start(node), "no anchor &%s comes before this alias", n.Value.GetToken().Value)
		}
		return value, ok
	case *ast.TagNode:
		d.refuse(path, start(node), "the tag %s has no meaning here; remove it", n.Start.Value)
		return nil, false
	}
	return node, true
}

// scalar sets dst from a node, which must be neither list nor mapping.
func (d *decoder) scalar(dst reflect.Value, node ast.Node, path string) {
	text, quoted, ok := scalarOf(node)
	if !ok {
		d.refuse(path, start(node), "is a %s; it must be a single value", kindOf(node))
		return
	}
	if err := setScalar(dst, text); err != nil {
		d.refuse(path, start(node), "%s", err)
	} else if quoted && dst.Type().PkgPath() == "" && dst.Kind() != reflect.String {
		d.refuse(path, start(node), "is a string; remove the quotes around %s", text)
	}
}

// list sets dst, a slice, from a sequence.
func (d *decoder) list(dst reflect.Value, node ast.Node, path string) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		example := "such as [a, b]"
		if !isScalar(dst.Type().Elem()) {
			example = "each item after a dash"
		}
		d.refuse(path, start(node), "is a %s; it must be a list, %s", kindOf(node), example)
		return
	}
	dst.Set(reflect.MakeSlice(dst.Type(), 0, len(sequence.Values)))
	for i, item := range sequence.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		v := reflect.New(dst.Type().Elem()).Elem()
		if item == nil || item.Type() == ast.NullType {
			d.refuse(at, start(cmp.Or(item, node)), "is empty; remove the item or give it a value")
		} else {
			d.value(v, item, at)
		}
		// A refused item keeps its place, so that the paths of later ones are
		// right.
		dst.Set(reflect.Append(dst, v))
	}
}

// mapping sets dst, a struct, from a mapping.
func (d *decoder) mapping(dst reflect.Value, node ast.Node, path string) {
	entries, ok := entriesOf(node)
	fields := fieldsOf(dst.Type())
	if !ok {
		d.refuse(path, start(node), "is a %s; it must have keys: %s", kindOf(node), strings.Join(names(fields), ", "))
		return
	}
	for _, e := range entries {
		if e.Key != nil && e.Key.Type() == ast.MergeKeyType {
			d.merge(dst, e, path)
		}
	}
	for _, e := range entries {
		if e.Key == nil || e.Key.Type() == ast.MergeKeyType {
			continue
		}
		key := keyOf(e.Key)
		f, known := find(fields, key)
		if !known {
			d.unknown(path, key, start(e.Key), names(fields))
			continue
		}
		if e.Value == nil {
			continue
		}
		at := child(path, key)
		// A value that is a list or a mapping is placed at its key.
		d.origin.at[at] = start(e.Key)
		d.value(dst.FieldByIndex(f.index), e.Value, at)
	}
}

// merge sets dst from the mapping that << names. The other keys are set later,
// and override it.
func (d *decoder) merge(dst reflect.Value, e *ast.MappingValueNode, path string) {
	if from, ok := d.resolve(e.Value, path); ok {
		if _, ok := entriesOf(from); !ok {
			d.refuse(path, start(e.Key), "<< takes one mapping, as in <<: *name")
			return
		}
		if d.merges++; d.merges > maxMerges {
			d.refuse(path, start(e.Key), "<< nests more than %d mappings, or merges one into itself", maxMerges)
		} else {
			d.mapping(dst, from, path)
		}
		d.merges--
	}
}

// unknown refuses a key and suggests the one that may be meant.
func (d *decoder) unknown(path, key string, at place, known []string) {
	p := &Error{Key: child(path, key)}
	d.origin.locate(p, at)
	switch near := suggest.Nearest(key, known); {
	case key == "password":
		p.Message = "a password does not belong in this file; write it to its own file and set password_file to the path"
	case key == "token":
		p.Message = "a token does not belong in this file; write it to its own file and set token_file to the path"
	case near != "":
		p.Message = fmt.Sprintf("unknown key %q, did you mean %q?", key, near)
	default:
		p.Message = fmt.Sprintf("unknown key %q; use one of %s", key, strings.Join(known, ", "))
	}
	d.problems = append(d.problems, p)
}

// refuse records a mistake; a zero place has no line.
func (d *decoder) refuse(path string, at place, format string, args ...any) {
	p := &Error{File: d.origin.file, Key: path, Message: fmt.Sprintf(format, args...)}
	if at.line > 0 {
		d.origin.locate(p, at)
	}
	d.problems = append(d.problems, p)
}

func find(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}
