package cqltype

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrKeyForm means that a partition key is not written in the form that the
// number of its columns asks for.
var ErrKeyForm = errors.New("a partition key of another form")

// PartitionKeyFromJSON returns the bytes of each component of a partition key,
// in key order. types and names are those of the key's columns.
//
// The key of one column is the value itself. That of several is an array in key
// order, or an object by name, where names are written as SELECT JSON writes
// them. Values follow EncodeJSON. An error names the column at fault.
func PartitionKeyFromJSON(types []*Type, names []string, json []byte) ([][]byte, error) {
	s := &scanner{src: json}
	key := make([][]byte, len(types))
	var err error
	if len(types) == 1 {
		err = keyComponent(types, names, key, 0, s)
	} else {
		err = compositeKey(types, names, key, s)
	}
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// keyComponent scans the value of the i-th column into key[i].
func keyComponent(types []*Type, names []string, key [][]byte, i int, s *scanner) error {
	cell, err := types[i].encodeEntry(s)
	if errors.Is(err, errNull) {
		err = errors.New("a column of the partition key may not be null")
	}
	if err != nil {
		return columnError(names[i], err)
	}
	key[i] = cell
	return nil
}

func columnError(name string, err error) error {
	return fmt.Errorf("column %q: %w", excerpt(name), err)
}

// compositeKey scans the array or object of a key of several columns.
func compositeKey(types []*Type, names []string, key [][]byte, s *scanner) error {
	tok, err := s.next()
	if err != nil {
		return err
	}
	switch tok.kind {
	case arrayToken:
		return keyArray(types, names, key, s)
	case objectToken:
		return keyObject(types, names, key, s)
	default:
		return fmt.Errorf("%w: expected an array [%s] or an object by name, got %s", ErrKeyForm, strings.Join(names, ", "), tok)
	}
}

func keyArray(types []*Type, names []string, key [][]byte, s *scanner) error {
	n := 0
	if !s.accept(']') {
		for more := true; more; n++ {
			if n == len(types) {
				return fmt.Errorf("%w: more than the %d columns %s", ErrKeyForm, n, strings.Join(names, ", "))
			}
			if err := keyComponent(types, names, key, n, s); err != nil {
				return err
			}
			if more = s.accept(','); !more && !s.accept(']') {
				return s.errorf("expected , or ] in an array")
			}
		}
	}
	if n < len(types) {
		return columnError(names[n], fmt.Errorf("%w: missing, got %d of %d values", ErrKeyForm, n, len(types)))
	}
	return nil
}

func keyObject(types []*Type, names []string, key [][]byte, s *scanner) error {
	for more := !s.accept('}'); more; {
		if s.peek() != '"' {
			return s.errorf("expected the name of a column")
		}
		text, err := s.string()
		if err != nil {
			return err
		}
		i := keyColumn(names, string(text))
		if i < 0 {
			return fmt.Errorf("%w: a name that is not in the partition key (%s)", ErrKeyForm, strings.Join(names, ", "))
		}
		if key[i] != nil {
			return columnError(names[i], errors.New("given twice"))
		}
		if !s.accept(':') {
			return s.errorf("expected : after the name of a column")
		}
		if err := keyComponent(types, names, key, i, s); err != nil {
			return err
		}
		if more = s.accept(','); !more && !s.accept('}') {
			return s.errorf("expected , or } in an object")
		}
	}
	for i, component := range key {
		if component == nil {
			return columnError(names[i], fmt.Errorf("%w: missing", ErrKeyForm))
		}
	}
	return nil
}

// keyColumn returns the column that a name means, by INSERT JSON's rule or as
// Cassandra stores it, or -1.
func keyColumn(names []string, name string) int {
	if i := slices.Index(names, storedName(name)); i >= 0 {
		return i
	}
	return slices.Index(names, name)
}

// PartitionKeyFromText returns the bytes of each component of a partition key
// written on a command line, in key order.
//
// The key of one column is its value, see EncodeText. The key of several is
// either JSON, as PartitionKeyFromJSON takes it, if it begins with [ or {, or
// its values with colons between them: a:7. A colon within a value is written
// \:, a backslash \\; or the value is in double quotes, as a JSON string:
// "10:30:00":7. An error names the column at fault.
func PartitionKeyFromText(types []*Type, names []string, s string) ([][]byte, error) {
	if len(types) == 1 {
		cell, err := types[0].EncodeText(s)
		if err != nil {
			return nil, columnError(names[0], err)
		}
		return [][]byte{cell}, nil
	}
	if trimmed := strings.TrimSpace(s); strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{") {
		return PartitionKeyFromJSON(types, names, []byte(s))
	}
	parts, err := splitKey(s)
	if err != nil {
		return nil, err
	}
	if len(parts) != len(types) {
		return nil, fmt.Errorf("%w: expected %d values with colons between them (%s), got %d; "+
			`write a colon within a value as \:, or the value in double quotes, or the key as JSON ["a",7]`,
			ErrKeyForm, len(types), strings.Join(names, ":"), len(parts))
	}
	key := make([][]byte, len(types))
	for i, part := range parts {
		if key[i], err = types[i].EncodeText(part); err != nil {
			return nil, columnError(names[i], err)
		}
	}
	return key, nil
}

// splitKey splits a key at its colons and undoes quotes and escapes.
func splitKey(s string) ([]string, error) {
	var parts []string
	for {
		part, rest, more, err := cutPart(s)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if !more {
			return parts, nil
		}
		s = rest
	}
}

// cutPart cuts the first value from a key.
func cutPart(s string) (part, rest string, more bool, err error) {
	if strings.HasPrefix(s, `"`) {
		scan := &scanner{src: []byte(s)}
		text, err := scan.string()
		if err != nil {
			return "", "", false, err
		}
		rest, more = strings.CutPrefix(s[scan.pos:], ":")
		if !more && rest != "" {
			return "", "", false, fmt.Errorf("%w: a quoted value is followed by something else than a colon", ErrKeyForm)
		}
		return string(text), rest, more, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ':':
			return b.String(), s[i+1:], true, nil
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == ':' || s[i+1] == '\\'):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), "", false, nil
}
