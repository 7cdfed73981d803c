package cqltype

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// errNull is the reason when a null is where CQL allows none.
var errNull = errors.New("null is not allowed here")

// EncodeJSON returns the bytes of a JSON value by the rules of INSERT JSON. It
// accepts the forms that AppendJSON writes, numbers also as strings, composite
// values also as strings that hold their JSON, and an empty string for the empty
// value of types that have one. JSON null gives nil without an error. Sets and
// maps are in Cassandra's order, without duplicates; of equal map keys the last
// value counts.
//
// A decimal given as a JSON number with a fraction or an exponent passes through
// a double, as it does in Cassandra: 1.10 becomes 1.1, which as a key is another
// partition. Written as a string it is exact.
//
// It is stricter than Cassandra where that keeps a mistake from becoming another
// value: it refuses half a surrogate pair, February 30, host names as inet, and
// text after the value. An error quotes at most one byte of the value.
func (t *Type) EncodeJSON(json []byte) ([]byte, error) {
	s := &scanner{src: json}
	cell, null, err := t.encode([]byte{}, s)
	if err == nil {
		err = s.end()
	}
	if err != nil || null {
		return nil, err
	}
	return cell, nil
}

// encode appends the bytes of the next value, and reports whether it was null.
func (t *Type) encode(dst []byte, s *scanner) (out []byte, null bool, err error) {
	tok, err := s.next()
	if err != nil {
		return dst, false, err
	}
	if tok.kind == nullToken {
		return dst, true, nil
	}
	out, err = t.encodeToken(dst, tok, s)
	return out, false, err
}

// encodeToken appends the bytes of the value that begins with tok. Composite
// values may be strings that hold their JSON; keys of maps must be.
func (t *Type) encodeToken(dst []byte, tok token, s *scanner) ([]byte, error) {
	if !t.composite() {
		return t.encodeScalar(dst, tok)
	}
	if tok.kind != stringToken {
		return t.encodeComposite(dst, tok, s)
	}
	inner := &scanner{src: bytes.Clone(tok.text)}
	tok, err := inner.next()
	if err != nil {
		return dst, fmt.Errorf("in the string for a %s: %w", t.Kind, err)
	}
	if tok.kind == stringToken {
		return dst, t.mismatch(tok)
	}
	if dst, err = t.encodeComposite(dst, tok, inner); err != nil {
		return dst, err
	}
	return dst, inner.end()
}

// mismatch returns the error that names the expected type and the kind of tok.
func (t *Type) mismatch(tok token) error {
	return fmt.Errorf("expected %s, got %s", t, tok)
}

// encodeComposite appends the bytes of the array or object that tok opens.
func (t *Type) encodeComposite(dst []byte, tok token, s *scanner) ([]byte, error) {
	want := arrayToken
	if t.Kind == Map || t.Kind == UDT {
		want = objectToken
	}
	if tok.kind != want {
		return dst, t.mismatch(tok)
	}
	switch t.Kind {
	case List:
		return t.encodeList(dst, s)
	case Set:
		return t.encodeSet(dst, s)
	case Map:
		return t.encodeMap(dst, s)
	case Tuple:
		return t.encodeTuple(dst, s)
	case UDT:
		return t.encodeUDT(dst, s)
	default:
		return t.encodeVector(dst, s)
	}
}

// array scans the elements of an array whose bracket has been read. f scans the
// i-th one.
func (s *scanner) array(f func(i int) error) error {
	if s.accept(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := f(i); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		switch {
		case s.accept(']'):
			return nil
		case !s.accept(','):
			return s.errorf("expected , or ] in an array")
		}
	}
}

// object scans the entries of an object whose bracket has been read. f gets the
// name, which is valid until it scans the value.
func (s *scanner) object(f func(name token) error) error {
	if s.accept('}') {
		return nil
	}
	for i := 0; ; i++ {
		if s.peek() != '"' {
			return s.errorf("expected a name in an object")
		}
		text, err := s.string()
		if err != nil {
			return err
		}
		if !s.accept(':') {
			return s.errorf("expected : after a name in an object")
		}
		if err := f(token{stringToken, text}); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		switch {
		case s.accept('}'):
			return nil
		case !s.accept(','):
			return s.errorf("expected , or } in an object")
		}
	}
}

// appendSized appends a value after its length, which is -1 for a null.
func (t *Type) appendSized(dst []byte, s *scanner, nullable bool) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0xff, 0xff, 0xff, 0xff)
	dst, null, err := t.encode(dst, s)
	if err != nil {
		return dst, err
	}
	if null {
		if !nullable {
			return dst, errNull
		}
		return dst, nil
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, nil
}

func (t *Type) encodeList(dst []byte, s *scanner) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	n := uint32(0)
	err := s.array(func(int) (err error) {
		n++
		dst, err = t.Elems[0].appendSized(dst, s, false)
		return err
	})
	binary.BigEndian.PutUint32(dst[start:], n)
	return dst, err
}

func (t *Type) encodeSet(dst []byte, s *scanner) ([]byte, error) {
	var entries []entry
	err := s.array(func(int) error {
		e, err := t.Elems[0].encodeEntry(s)
		entries = append(entries, entry{key: e})
		return err
	})
	if err != nil {
		return dst, err
	}
	return appendEntries(dst, t.sorted(entries), false), nil
}

func (t *Type) encodeMap(dst []byte, s *scanner) ([]byte, error) {
	var entries []entry
	err := s.object(func(name token) error {
		key, err := t.Elems[0].encodeToken([]byte{}, name, s)
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		value, err := t.Elems[1].encodeEntry(s)
		entries = append(entries, entry{key, value})
		return err
	})
	if err != nil {
		return dst, err
	}
	return appendEntries(dst, t.sorted(entries), true), nil
}

// encodeEntry returns the bytes of the next value, which may not be null.
func (t *Type) encodeEntry(s *scanner) ([]byte, error) {
	b, null, err := t.encode([]byte{}, s)
	if err == nil && null {
		err = errNull
	}
	return b, err
}

// entry is an element of a set, or an entry of a map.
type entry struct{ key, value []byte }

// sorted returns the entries in the order of the key type. Of entries with equal
// keys it keeps the first key and the last value.
func (t *Type) sorted(entries []entry) []entry {
	slices.SortStableFunc(entries, func(a, b entry) int { return t.Elems[0].Compare(a.key, b.key) })
	unique := entries[:0]
	for _, e := range entries {
		if n := len(unique); n > 0 && t.Elems[0].Compare(unique[n-1].key, e.key) == 0 {
			unique[n-1].value = e.value
			continue
		}
		unique = append(unique, e)
	}
	return unique
}

func appendEntries(dst []byte, entries []entry, values bool) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(entries)))
	for _, e := range entries {
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(e.key))), e.key...)
		if values {
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(e.value))), e.value...)
		}
	}
	return dst
}

func (t *Type) encodeTuple(dst []byte, s *scanner) ([]byte, error) {
	n := 0
	err := s.array(func(i int) (err error) {
		if i == len(t.Elems) {
			return fmt.Errorf("a %s has %d elements", t, i)
		}
		n++
		dst, err = t.Elems[i].appendSized(dst, s, true)
		return err
	})
	if err == nil && n < len(t.Elems) {
		err = fmt.Errorf("a %s has %d elements, got %d", t, len(t.Elems), n)
	}
	return dst, err
}

func (t *Type) encodeUDT(dst []byte, s *scanner) ([]byte, error) {
	values := make([][]byte, len(t.Fields))
	err := s.object(func(name token) error {
		i := slices.Index(t.Fields, storedName(string(name.text)))
		if i < 0 {
			return fmt.Errorf("the type %s has no such field", t)
		}
		b, null, err := t.Elems[i].encode([]byte{}, s)
		if null {
			b = nil
		}
		values[i] = b
		return err
	})
	if err != nil {
		return dst, err
	}
	for _, v := range values {
		if v == nil {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
	}
	return dst, nil
}

func (t *Type) encodeVector(dst []byte, s *scanner) ([]byte, error) {
	elem, n := t.Elems[0], 0
	fixed := elem.fixedSize()
	err := s.array(func(i int) error {
		if i == t.Dimension {
			return fmt.Errorf("a %s has %d elements", t, i)
		}
		n++
		b, err := elem.encodeEntry(s)
		switch {
		case err != nil:
			return err
		case fixed < 0:
			dst = appendUvint(dst, uint64(len(b)))
		case len(b) != fixed:
			return fmt.Errorf("expected %s, got the empty value, which a vector cannot hold", elem)
		}
		dst = append(dst, b...)
		return nil
	})
	if err == nil && n < t.Dimension {
		err = fmt.Errorf("a %s has %d elements, got %d", t, t.Dimension, n)
	}
	return dst, err
}
