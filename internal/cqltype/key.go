package cqltype

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrKeyForm means that a key is not written in the form that the number of its columns requires.
var ErrKeyForm = errors.New("a partition key of another form")

// KeyFromJSON returns the bytes of each component of a key, in key order. types and names are
// those of the columns of the primary key, of which the first partitionKey columns are the
// partition key. A key has all of these, and may continue with clustering columns in their order.
//
// The key of a primary key of one column is the value itself. Otherwise a key is an array in key
// order, or an object by name, where names are written as SELECT JSON writes them. If the
// partition key has one column, its bare value is accepted, too; where such values are arrays or
// objects, an array or object is read as the value. Values follow EncodeJSON. An error names the
// column at fault.
func KeyFromJSON(types []*Type, names []string, partitionKey int, json []byte) ([][]byte, error) {
	s := &scanner{src: json}
	key := make([][]byte, len(types))
	var err error
	if partitionKey == 1 && (len(types) == 1 || types[0].begins(s.peek())) {
		key = key[:1]
		err = keyComponent(types, names, key, 0, s)
	} else {
		key, err = compositeKey(types, names, partitionKey, key, s)
	}
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// begins reports whether the JSON of a value of the type may begin with c. It is true for all c
// that begin neither an array nor an object.
func (t *Type) begins(c byte) bool {
	switch c {
	case '[':
		return t.Kind == List || t.Kind == Set || t.Kind == Tuple || t.Kind == Vector
	case '{':
		return t.Kind == Map || t.Kind == UDT
	default:
		return true
	}
}

// keyComponent scans the value of the i-th column into key[i].
func keyComponent(types []*Type, names []string, key [][]byte, i int, s *scanner) error {
	cell, err := types[i].encodeEntry(s)
	if errors.Is(err, errNull) {
		err = errors.New("a column of the key may not be null")
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

// compositeKey scans the array or object of a key that may have several columns.
func compositeKey(types []*Type, names []string, partitionKey int, key [][]byte, s *scanner) ([][]byte, error) {
	tok, err := s.next()
	if err != nil {
		return nil, err
	}
	switch tok.kind {
	case arrayToken:
		return keyArray(types, names, partitionKey, key, s)
	case objectToken:
		return keyObject(types, names, partitionKey, key, s)
	default:
		return nil, fmt.Errorf("%w: expected an array [%s] or an object by name, got %s", ErrKeyForm, strings.Join(names[:partitionKey], ", "), tok)
	}
}

func keyArray(types []*Type, names []string, partitionKey int, key [][]byte, s *scanner) ([][]byte, error) {
	n := 0
	if !s.accept(']') {
		for more := true; more; n++ {
			if n == len(types) {
				return nil, fmt.Errorf("%w: more than the %d columns %s", ErrKeyForm, n, strings.Join(names, ", "))
			}
			if err := keyComponent(types, names, key, n, s); err != nil {
				return nil, err
			}
			if more = s.accept(','); !more && !s.accept(']') {
				return nil, s.errorf("expected , or ] in an array")
			}
		}
	}
	if n < partitionKey {
		return nil, columnError(names[n], fmt.Errorf("%w: missing, got %d of %d values", ErrKeyForm, n, partitionKey))
	}
	return key[:n], nil
}

func keyObject(types []*Type, names []string, partitionKey int, key [][]byte, s *scanner) ([][]byte, error) {
	for more := !s.accept('}'); more; {
		if s.peek() != '"' {
			return nil, s.errorf("expected the name of a column")
		}
		text, err := s.string()
		if err != nil {
			return nil, err
		}
		i := keyColumn(names, string(text))
		if i < 0 {
			return nil, fmt.Errorf("%w: a name that is not in the key (%s)", ErrKeyForm, strings.Join(names, ", "))
		}
		if key[i] != nil {
			return nil, columnError(names[i], errors.New("given twice"))
		}
		if !s.accept(':') {
			return nil, s.errorf("expected : after the name of a column")
		}
		if err := keyComponent(types, names, key, i, s); err != nil {
			return nil, err
		}
		if more = s.accept(','); !more && !s.accept('}') {
			return nil, s.errorf("expected , or } in an object")
		}
	}
	n := len(key)
	for n > partitionKey && key[n-1] == nil {
		n--
	}
	for i, component := range key[:n] {
		switch {
		case component != nil:
		case i < partitionKey:
			return nil, columnError(names[i], fmt.Errorf("%w: missing", ErrKeyForm))
		default:
			return nil, columnError(names[i], fmt.Errorf("%w: missing before %q; clustering columns are named in their order without a gap", ErrKeyForm, excerpt(names[n-1])))
		}
	}
	return key[:n], nil
}

// keyColumn returns the index of the column with a name, by INSERT JSON's rule or else as
// Cassandra stores it, or -1.
func keyColumn(names []string, name string) int {
	if i := slices.Index(names, storedName(name)); i >= 0 {
		return i
	}
	return slices.Index(names, name)
}

// PartitionKeyFromText returns the bytes of each component of a partition key
// written on a command line, in key order. See KeyFromText.
func PartitionKeyFromText(types []*Type, names []string, s string) ([][]byte, error) {
	return KeyFromText(types, names, len(types), s)
}

// KeyFromText returns the bytes of each component of a key written on a command line, in key
// order; see KeyFromJSON for the columns.
//
// A partition key of one column is its value, see EncodeText. One of several columns is JSON for
// KeyFromJSON, if it begins with [ or {, or else its values with colons between them: a:7. A
// colon within a value is written \:, a backslash \\; or the value is in double quotes, as a JSON
// string: "10:30:00":7.
//
// Where the table has clustering columns, their values follow the partition key with a slash
// before each: a:7/2026-01-01. A slash within a value is then written \/, or the value quoted, or
// the key written as JSON. An error names the column at fault.
func KeyFromText(types []*Type, names []string, partitionKey int, s string) ([][]byte, error) {
	clustered := len(types) > partitionKey
	trimmed := strings.TrimSpace(s)
	isJSON := strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{")
	switch {
	case partitionKey == 1 && (!clustered || isJSON && types[0].begins(trimmed[0])):
		cell, err := types[0].EncodeText(s)
		if err != nil {
			return nil, columnError(names[0], err)
		}
		return [][]byte{cell}, nil
	case isJSON:
		return KeyFromJSON(types, names, partitionKey, []byte(s))
	}
	parts, n, err := splitKey(s, partitionKey > 1, clustered)
	if err != nil {
		return nil, err
	}
	switch {
	case n != partitionKey:
		return nil, fmt.Errorf("%w: expected %d values with colons between them (%s), got %d; "+
			`write a colon within a value as \:, or the value in double quotes, or the key as JSON ["a",7]`,
			ErrKeyForm, partitionKey, strings.Join(names[:partitionKey], ":"), n)
	case len(parts) > len(types):
		return nil, fmt.Errorf("%w: more than the %d clustering columns %s behind the partition key; "+
			`write a slash within a value as \/, or the value in double quotes, or the key as JSON ["a",7]`,
			ErrKeyForm, len(types)-partitionKey, strings.Join(names[partitionKey:], "/"))
	}
	key := make([][]byte, len(parts))
	for i, part := range parts {
		if key[i], err = types[i].EncodeText(part); err != nil {
			return nil, columnError(names[i], err)
		}
	}
	return key, nil
}

// splitKey splits a key at its colons and slashes, if it may have them, and undoes quotes and
// escapes. After the first slash colons no longer separate. partition is the number of parts
// before the first slash.
func splitKey(s string, colons, slashes bool) (parts []string, partition int, err error) {
	separators := ""
	if colons {
		separators = ":"
	}
	if slashes {
		separators += "/"
	}
	for {
		part, end, rest, err := cutPart(s, separators)
		if err != nil {
			return nil, 0, err
		}
		parts = append(parts, part)
		if end != ':' && partition == 0 {
			partition = len(parts)
			separators = strings.TrimPrefix(separators, ":")
		}
		if end == 0 {
			return parts, partition, nil
		}
		s = rest
	}
}

// cutPart cuts the first value from a key; end is the separator behind it, 0 at the end.
func cutPart(s, separators string) (part string, end byte, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		scan := &scanner{src: []byte(s)}
		text, err := scan.string()
		if err != nil {
			return "", 0, "", err
		}
		switch rest = s[scan.pos:]; {
		case rest == "":
			return string(text), 0, "", nil
		case strings.IndexByte(separators, rest[0]) < 0:
			return "", 0, "", fmt.Errorf("%w: a quoted value is followed by something else than %s", ErrKeyForm, separatorNames[separators])
		}
		return string(text), rest[0], rest[1:], nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.IndexByte(separators, s[i]) >= 0:
			return b.String(), s[i], s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '\\' || strings.IndexByte(separators, s[i+1]) >= 0):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), 0, "", nil
}

// separatorNames name what may follow a value.
var separatorNames = map[string]string{":": "a colon", "/": "a slash", ":/": "a colon or a slash"}
