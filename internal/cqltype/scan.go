package cqltype

import (
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONNumber is how many bytes a JSON number may have, as in Cassandra's JSON
// parser. Longer numbers can be written as strings.
const maxJSONNumber = 1000

// tokenKind is the kind of a JSON value.
type tokenKind uint8

const (
	noToken tokenKind = iota
	stringToken
	numberToken
	boolToken
	nullToken
	arrayToken
	objectToken
)

// token is a JSON value. For arrays and objects it is only the opening bracket.
type token struct {
	kind tokenKind
	// text is the content of a string, unescaped, or the other scalar as it was
	// written. It is valid until the next token is scanned.
	text []byte
}

// String describes the kind of value for an error. It omits the content, which may
// be a key.
func (k token) String() string {
	switch k.kind {
	case stringToken:
		if len(k.text) == 0 {
			return "an empty string"
		}
		return "a string"
	case numberToken:
		return "a number"
	case boolToken:
		return "a boolean"
	case nullToken:
		return "null"
	case arrayToken:
		return "an array"
	case objectToken:
		return "an object"
	default:
		return "nothing"
	}
}

// scanner reads JSON (RFC 8259) from left to right.
type scanner struct {
	src []byte
	pos int
	// buf holds the last string that had escapes.
	buf []byte
}

// errorf returns an error with the position in the JSON.
func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", s.pos, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the byte after it, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// accept skips white space and c, and reports whether c was there.
func (s *scanner) accept(c byte) bool {
	if s.peek() != c || s.pos == len(s.src) {
		return false
	}
	s.pos++
	return true
}

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.src) {
		return s.errorf("unexpected %q after the value", s.src[s.pos])
	}
	return nil
}

// next scans a scalar, or the opening bracket of an array or object.
func (s *scanner) next() (token, error) {
	switch c := s.peek(); {
	case s.pos == len(s.src):
		return token{}, s.errorf("unexpected end")
	case c == '"':
		text, err := s.string()
		return token{stringToken, text}, err
	case c == '-' || isDigit(c):
		return s.number()
	case c == '[':
		s.pos++
		return token{kind: arrayToken}, nil
	case c == '{':
		s.pos++
		return token{kind: objectToken}, nil
	default:
		return s.word()
	}
}

// word scans true, false or null.
func (s *scanner) word() (token, error) {
	start := s.pos
	for s.pos < len(s.src) && 'a' <= s.src[s.pos] && s.src[s.pos] <= 'z' {
		s.pos++
	}
	word := s.src[start:s.pos]
	switch string(word) {
	case "true", "false":
		return token{boolToken, word}, nil
	case "null":
		return token{nullToken, word}, nil
	default:
		s.pos = start
		return token{}, s.errorf("unexpected %q", s.src[start])
	}
}

// number scans a number; a minus, digits without a leading zero, a fraction, an
// exponent.
func (s *scanner) number() (token, error) {
	start := s.pos
	s.one('-')
	zero := s.one('0')
	if !zero && s.digits() == 0 {
		return token{}, s.errorf("a number needs a digit")
	}
	if s.one('.') && s.digits() == 0 {
		return token{}, s.errorf("a fraction needs a digit")
	}
	if s.one('e') || s.one('E') {
		if !s.one('+') {
			s.one('-')
		}
		if s.digits() == 0 {
			return token{}, s.errorf("an exponent needs a digit")
		}
	}
	if s.pos < len(s.src) && isDigit(s.src[s.pos]) {
		return token{}, s.errorf("a number may not begin with 0")
	}
	if s.pos-start > maxJSONNumber {
		return token{}, s.errorf("a number of more than %d bytes; write it as a string", maxJSONNumber)
	}
	return token{numberToken, s.src[start:s.pos]}, nil
}

// one skips c, without white space, and reports whether it was there.
func (s *scanner) one(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// digits skips digits and returns how many there were.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.src) && isDigit(s.src[s.pos]) {
		s.pos++
	}
	return s.pos - start
}

// string scans a string and returns its content, which must be valid Unicode.
func (s *scanner) string() ([]byte, error) {
	s.pos++
	start, escaped := s.pos, false
	for ; s.pos < len(s.src) && s.src[s.pos] != '"'; s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '\\':
			escaped = true
			s.pos++
		case c < ' ':
			return nil, s.errorf("a control character in a string")
		}
	}
	if s.pos >= len(s.src) {
		s.pos = len(s.src)
		return nil, s.errorf("a string is not closed")
	}
	text := s.src[start:s.pos]
	s.pos++
	if !utf8.Valid(text) {
		return nil, s.errorf("a string is not UTF-8")
	}
	if !escaped {
		return text, nil
	}
	buf, err := unescape(s.buf[:0], text)
	if err != nil {
		return nil, s.errorf("%s", err)
	}
	s.buf = buf
	return buf, nil
}

// errEscape is the reason when a backslash begins no JSON escape.
var errEscape = errors.New("an unknown escape in a string")

// unescape appends the content of a string that has escapes.
func unescape(dst, text []byte) ([]byte, error) {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			dst = append(dst, text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, used := unicodeEscape(text[i-1:])
			if used == 0 {
				return dst, errors.New(`a \u escape is no character`)
			}
			dst = utf8.AppendRune(dst, r)
			i += used - 2
		default:
			return dst, errEscape
		}
	}
	return dst, nil
}

// unicodeEscape reads \uXXXX, or two of them that form a surrogate pair. used is
// the number of bytes read, 0 if it is neither: half a pair is no character and
// has no UTF-8.
func unicodeEscape(text []byte) (r rune, used int) {
	r = hex4(text)
	switch {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if r = utf16.DecodeRune(r, hex4(text[6:])); r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hex4 reads \uXXXX and returns its number, or -1.
func hex4(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	r := rune(0)
	for _, c := range text[2:6] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
