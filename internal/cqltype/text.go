package cqltype

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// AppendText appends the cell as a person reads it in a terminal, much as cqlsh
// shows it: text bare, but within other values in single quotes; collections as
// [1, 2], {1, 2} and {'a': 1}, tuples as (1, 2), UDTs as {name: 'x'}; null for a
// nil cell, nothing for the empty value. Characters that would control the
// terminal, and bytes that are not UTF-8, are shown as escapes. For a cell that
// is no value of the type it returns dst as it was and an error.
func (t *Type) AppendText(dst, cell []byte) ([]byte, error) {
	out, err := t.appendText(dst, cell, false)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (t *Type) appendText(dst, cell []byte, nested bool) ([]byte, error) {
	if cell == nil {
		return append(dst, "null"...), nil
	}
	switch t.Kind {
	case Text, ASCII:
		return appendPrintable(dst, cell, nested), nil
	case List, Set, Map, Tuple, UDT, Vector:
		return t.appendTextElements(dst, cell)
	case Blob, Custom:
		raw, err := t.appendJSON(nil, cell)
		return append(dst, bytes.Trim(raw, `"`)...), err
	case Float, Double:
		return t.appendFloatText(dst, cell)
	default:
	}
	if len(cell) == 0 {
		return dst, nil
	}
	if nested && t.quoted() && t.Kind != UUID && t.Kind != TimeUUID && t.Kind != Duration {
		dst, err := t.appendScalar(append(dst, '\''), cell)
		return append(dst, '\''), err
	}
	return t.appendScalar(dst, cell)
}

// appendFloatText appends a float or double, NaN and the infinities by name.
func (t *Type) appendFloatText(dst, cell []byte) ([]byte, error) {
	if len(cell) == 0 {
		return dst, nil
	}
	v, err := t.float(cell)
	switch {
	case err != nil:
		return dst, err
	case v != v:
		return append(dst, "NaN"...), nil
	case v-v != 0 && v > 0:
		return append(dst, "Infinity"...), nil
	case v-v != 0:
		return append(dst, "-Infinity"...), nil
	}
	return appendJavaFloat(dst, v, 8*len(cell)), nil
}

// appendTextElements appends a composite value.
func (t *Type) appendTextElements(dst, cell []byte) ([]byte, error) {
	brackets := "{}"
	switch t.Kind {
	case List, Vector:
		brackets = "[]"
	case Tuple:
		brackets = "()"
	default:
	}
	dst = append(dst, brackets[0])
	err := t.each(cell, func(i int, elem *Type, c []byte) (err error) {
		switch {
		case t.Kind == Map && i&1 == 1:
			dst = append(dst, ": "...)
		case i > 0:
			dst = append(dst, ", "...)
		}
		if t.Kind == UDT {
			dst = appendPrintable(dst, []byte(Identifier(t.Fields[i])), false)
			dst = append(dst, ": "...)
		}
		dst, err = elem.appendText(dst, c, true)
		return err
	})
	return append(dst, brackets[1]), err
}

// appendPrintable appends text with escapes for what must not reach a terminal:
// control characters, those that reorder the line, and bytes that are not UTF-8.
func appendPrintable(dst, text []byte, quoted bool) []byte {
	if quoted {
		dst = append(dst, '\'')
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'x', digits[text[0]>>4], digits[text[0]&15])
		case quoted && r == '\'':
			dst = append(dst, "''"...)
		case unicode.IsPrint(r) || r == '\u00a0':
			dst = append(dst, text[:n]...)
		default:
			escaped := strconv.QuoteRuneToASCII(r)
			dst = append(dst, escaped[1:len(escaped)-1]...)
		}
		text = text[n:]
	}
	if quoted {
		dst = append(dst, '\'')
	}
	return dst
}

// EncodeText returns the bytes of a value as it is written on a command line:
// text as it is, other scalars as EncodeJSON accepts them in a string (7, 1.5,
// true, 2011-02-03T04:05:06Z, 0x00ff, 1h30m, a uuid), composite values as JSON.
// Only text may be empty. There is no way to write a null.
func (t *Type) EncodeText(s string) ([]byte, error) {
	if t.composite() {
		cell, err := t.EncodeJSON([]byte(s))
		if err == nil && cell == nil {
			err = t.mismatch(token{kind: nullToken})
		}
		return cell, err
	}
	tok := token{stringToken, []byte(s)}
	if t.Kind != Text && t.Kind != ASCII {
		if tok.text = bytes.TrimSpace(tok.text); len(tok.text) == 0 {
			return nil, t.mismatch(tok)
		}
	}
	cell, err := t.encodeScalar([]byte{}, tok)
	if err != nil {
		return nil, err
	}
	return cell, nil
}
