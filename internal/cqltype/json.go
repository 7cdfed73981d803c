package cqltype

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// maxQuotedKey is the most bytes of a map key that is turned into a JSON string. Maps within
// keys of maps double the backslashes at every level, so a small cell of a hostile type
// could grow without bound.
const maxQuotedKey = 16 << 20

// AppendJSON appends the JSON that Cassandra 5.0's SELECT JSON writes for the cell, spaces
// included, and returns the extended buffer. A nil cell is null. For a cell that is no value
// of the type it returns an error and dst as it was.
//
// Numbers are as Java prints them (1.0E10), NaN and the infinities are null, a
// blob is "0x…", the empty value of any type is "", keys of maps are strings,
// and names of UDT fields are as ColumnJSONName gives them. The year of a
// timestamp before the common era is lost, as it is in Cassandra.
func (t *Type) AppendJSON(dst, cell []byte) ([]byte, error) {
	out, err := t.appendJSON(dst, cell)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (t *Type) appendJSON(dst, cell []byte) ([]byte, error) {
	if cell == nil {
		return append(dst, "null"...), nil
	}
	switch t.Kind {
	case Text, ASCII:
		if err := t.checkText(cell); err != nil {
			return dst, err
		}
		return appendJSONString(dst, cell), nil
	case Blob, Custom:
		dst = append(dst, `"0x`...)
		return append(hex.AppendEncode(dst, cell), '"'), nil
	case List, Set, Tuple, Vector:
		return t.appendArray(dst, cell)
	case Map:
		return t.appendMap(dst, cell)
	case UDT:
		return t.appendUDT(dst, cell)
	case Float, Double:
		return t.appendFloatJSON(dst, cell)
	default:
	}
	if len(cell) == 0 {
		return append(dst, `""`...), nil
	}
	if t.quoted() {
		dst, err := t.appendScalar(append(dst, '"'), cell)
		return append(dst, '"'), err
	}
	return t.appendScalar(dst, cell)
}

// quoted reports whether scalar values of the type are JSON strings.
func (t *Type) quoted() bool {
	switch t.Kind {
	case Date, Duration, Inet, Time, Timestamp, TimeUUID, UUID:
		return true
	default:
		return false
	}
}

// appendScalar appends the plain text of a cell that is not empty, of a type
// that is neither composite nor text, blob, float or double.
func (t *Type) appendScalar(dst, cell []byte) ([]byte, error) {
	switch t.Kind {
	case TinyInt, SmallInt, Int, BigInt, Counter:
		if err := t.size(cell, t.Kind.intSize()); err != nil {
			return dst, err
		}
		return strconv.AppendInt(dst, integer(cell), 10), nil
	case Boolean:
		return strconv.AppendBool(dst, cell[0] != 0), t.size(cell, 1)
	case VarInt:
		return appendVarInt(dst, cell), nil
	case Decimal:
		if len(cell) < 5 {
			return dst, t.malformed(errTruncated)
		}
		return appendDecimal(dst, int32(binary.BigEndian.Uint32(cell)), cell[4:]), nil
	case UUID, TimeUUID:
		if err := t.checkUUID(cell); err != nil {
			return dst, err
		}
		return appendUUID(dst, cell), nil
	case Inet:
		return t.appendInet(dst, cell)
	case Duration:
		d, err := t.duration(cell)
		if err != nil {
			return dst, err
		}
		return d.append(dst), nil
	case Date, Time, Timestamp:
		return t.appendMoment(dst, cell)
	default:
		return dst, t.malformed(fmt.Errorf("%d bytes of a type without values", len(cell)))
	}
}

// appendMoment appends a date, time or timestamp.
func (t *Type) appendMoment(dst, cell []byte) ([]byte, error) {
	if t.Kind == Date {
		if err := t.size(cell, 4); err != nil {
			return dst, err
		}
		return appendDate(dst, dateDays(cell)), nil
	}
	if err := t.size(cell, 8); err != nil {
		return dst, err
	}
	v := integer(cell)
	if t.Kind == Timestamp {
		return appendTimestamp(dst, v), nil
	}
	if v < 0 || v >= nanosPerDay {
		return dst, t.malformed(errors.New("not within a day"))
	}
	return appendTime(dst, v), nil
}

func (t *Type) appendFloatJSON(dst, cell []byte) ([]byte, error) {
	if len(cell) == 0 {
		return append(dst, `""`...), nil
	}
	v, err := t.float(cell)
	if err != nil {
		return dst, err
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...), nil
	}
	return appendJavaFloat(dst, v, 8*len(cell)), nil
}

// float decodes a float or double.
func (t *Type) float(cell []byte) (float64, error) {
	if t.Kind == Float {
		if err := t.size(cell, 4); err != nil {
			return 0, err
		}
		return float64(math.Float32frombits(binary.BigEndian.Uint32(cell))), nil
	}
	if err := t.size(cell, 8); err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.BigEndian.Uint64(cell)), nil
}

func (t *Type) appendArray(dst, cell []byte) ([]byte, error) {
	e, err := t.elements(cell)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	for i := range e.n {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		c, err := e.next()
		if err != nil {
			return dst, t.malformed(err)
		}
		if dst, err = t.elem(i).appendJSON(dst, c); err != nil {
			return dst, err
		}
	}
	if err := e.end(); err != nil {
		return dst, t.malformed(err)
	}
	return append(dst, ']'), nil
}

func (t *Type) appendMap(dst, cell []byte) ([]byte, error) {
	e, err := t.elements(cell)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	for i := range e.n {
		c, err := e.next()
		if err != nil {
			return dst, t.malformed(err)
		}
		if i&1 == 1 {
			dst = append(dst, ": "...)
			if dst, err = t.Elems[1].appendJSON(dst, c); err != nil {
				return dst, err
			}
			continue
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if dst, err = t.appendMapKey(dst, c); err != nil {
			return dst, err
		}
	}
	if err := e.end(); err != nil {
		return dst, t.malformed(err)
	}
	return append(dst, '}'), nil
}

// appendMapKey appends a key as a JSON string. JSON that is no string, such as 7 or ["a"],
// is quoted: "7", "[\"a\"]".
func (t *Type) appendMapKey(dst, cell []byte) ([]byte, error) {
	if cell == nil {
		return dst, t.malformed(errors.New("a null key"))
	}
	start := len(dst)
	dst, err := t.Elems[0].appendJSON(dst, cell)
	if err != nil || dst[start] == '"' {
		return dst, err
	}
	extra := 2
	for _, c := range dst[start:] {
		if c == '"' || c == '\\' {
			extra++
		}
	}
	if len(dst)-start+extra > maxQuotedKey {
		return dst, fmt.Errorf("a map key of more than %d bytes of JSON", maxQuotedKey)
	}
	// Valid JSON has no control characters; only quotes and backslashes need escapes.
	from := len(dst) - 1
	for range extra {
		dst = append(dst, '"')
	}
	to := len(dst) - 2
	for ; from >= start; from-- {
		dst[to] = dst[from]
		to--
		if c := dst[from]; c == '"' || c == '\\' {
			dst[to] = '\\'
			to--
		}
	}
	dst[start] = '"'
	return dst, nil
}

func (t *Type) appendUDT(dst, cell []byte) ([]byte, error) {
	e, err := t.elements(cell)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	for i := range e.n {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = AppendJSONString(dst, ColumnJSONName(t.Fields[i]))
		dst = append(dst, ": "...)
		c, err := e.next()
		if err != nil {
			return dst, t.malformed(err)
		}
		if dst, err = t.Elems[i].appendJSON(dst, c); err != nil {
			return dst, err
		}
	}
	if err := e.end(); err != nil {
		return dst, t.malformed(err)
	}
	return append(dst, '}'), nil
}

// AppendJSONString appends s as a JSON string with the escapes that Cassandra writes: quote,
// backslash and control characters, nothing else. Bytes that are not UTF-8 are appended as
// they are.
func AppendJSONString(dst []byte, s string) []byte {
	return appendJSONString(dst, s)
}

func appendJSONString[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		end := min(i+8, len(s))
		if end == i+8 && plain(word(s[i:end])) {
			i = end
			continue
		}
		for ; i < end; i++ {
			c := s[i]
			if c >= ' ' && c != '"' && c != '\\' {
				continue
			}
			dst = append(dst, s[start:i]...)
			start = i + 1
			dst = appendEscape(dst, c)
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// word returns the first eight bytes, which the compiler loads at once.
func word[S string | []byte](s S) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// plain reports whether none of eight bytes needs an escape.
//
// Source: "Determine if a word has a byte less than n", Bit Twiddling Hacks, S. E. Anderson.
// A byte that equals n is one whose exclusive or with n is less than 1.
func plain(w uint64) bool {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	quote, backslash := w^'"'*each, w^'\\'*each
	return ((w-' '*each)&^w|(quote-each)&^quote|(backslash-each)&^backslash)&high == 0
}

// appendEscape appends the escape of a quote, backslash or control character.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	default:
		const digits = "0123456789ABCDEF"
		return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
}
