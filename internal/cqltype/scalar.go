package cqltype

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// encodeScalar appends the bytes of a JSON scalar for a type that is not
// composite.
func (t *Type) encodeScalar(dst []byte, tok token) ([]byte, error) {
	switch t.Kind {
	case Text, ASCII:
		return t.encodeString(dst, tok)
	case Counter:
		return dst, errors.New("a counter has no value of its own that could be given")
	case Boolean:
		return t.encodeBool(dst, tok)
	default:
	}
	switch tok.kind {
	case stringToken:
		if len(tok.text) == 0 && t.hasEmpty() {
			return dst, nil
		}
	case numberToken:
		if !t.numeric() {
			return dst, t.mismatch(tok)
		}
	default:
		return dst, t.mismatch(tok)
	}
	out, err := t.encodeWord(dst, tok)
	if errors.Is(err, errForm) {
		return dst, t.mismatch(tok)
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %w", t.mismatch(tok), err)
	}
	return out, nil
}

// hasEmpty reports whether "" stands for the empty value of the type.
func (t *Type) hasEmpty() bool {
	switch t.Kind {
	case VarInt, Date, Time, Blob, Custom, Unknown:
		return false
	default:
		return true
	}
}

// numeric reports whether a JSON number may stand for a value of the type.
func (t *Type) numeric() bool {
	switch t.Kind {
	case TinyInt, SmallInt, Int, BigInt, VarInt, Decimal, Float, Double, Timestamp:
		return true
	default:
		return false
	}
}

// errForm means that a string or number does not have the form of its type; the
// error then needs no reason besides the expected type.
var errForm = errors.New("not of the form of the type")

// encodeWord appends the bytes of a string or number.
func (t *Type) encodeWord(dst []byte, tok token) ([]byte, error) {
	switch t.Kind {
	case TinyInt, SmallInt, Int, BigInt:
		return encodeInteger(dst, tok.text, t.Kind.intSize())
	case VarInt:
		v, err := parseBigInt(tok.text)
		if err != nil {
			return dst, err
		}
		return appendBigInt(dst, v), nil
	case Decimal:
		return encodeDecimal(dst, tok)
	case Float, Double:
		return t.encodeFloat(dst, tok)
	case UUID, TimeUUID:
		return t.encodeUUID(dst, tok.text)
	case Blob, Custom:
		return encodeBlob(dst, tok.text)
	case Inet:
		return encodeInet(dst, string(tok.text))
	case Date, Time, Timestamp, Duration:
		return t.encodeMoment(dst, string(tok.text))
	default:
		return dst, errForm
	}
}

func (t *Type) encodeString(dst []byte, tok token) ([]byte, error) {
	if tok.kind != stringToken {
		return dst, t.mismatch(tok)
	}
	if err := t.checkText(tok.text); err != nil {
		return dst, t.mismatch(tok)
	}
	return append(dst, tok.text...), nil
}

// encodeBool accepts true, false, and both as strings in any case; an empty
// string is false.
func (t *Type) encodeBool(dst []byte, tok token) ([]byte, error) {
	if tok.kind == boolToken || tok.kind == stringToken {
		switch s := string(tok.text); {
		case strings.EqualFold(s, "true"):
			return append(dst, 1), nil
		case s == "" || strings.EqualFold(s, "false"):
			return append(dst, 0), nil
		}
	}
	return dst, t.mismatch(tok)
}

func encodeInteger(dst, text []byte, size int) ([]byte, error) {
	v, err := strconv.ParseInt(string(text), 10, 8*size)
	if errors.Is(err, strconv.ErrRange) {
		return dst, errors.New("out of range")
	}
	if err != nil {
		return dst, errForm
	}
	for shift := 8 * (size - 1); shift >= 0; shift -= 8 {
		dst = append(dst, byte(v>>shift))
	}
	return dst, nil
}

// isInteger reports whether a JSON number has neither fraction nor exponent.
func isInteger(text []byte) bool {
	return !strings.ContainsAny(string(text), ".eE")
}

// encodeFloat rounds as Cassandra does: a fraction given as a JSON number becomes
// a double first, also for a float. A number that is too large becomes infinite.
func (t *Type) encodeFloat(dst []byte, tok token) ([]byte, error) {
	bits := 64
	if t.Kind == Float && (tok.kind == stringToken || isInteger(tok.text)) {
		bits = 32
	}
	v, err := parseFloat(strings.TrimSpace(string(tok.text)), bits)
	if err != nil {
		return dst, err
	}
	if v == 0 && tok.kind == numberToken && isInteger(tok.text) {
		v = 0 // -0 is an integer, which has no sign
	}
	if math.IsNaN(v) {
		v = math.Float64frombits(0x7ff8000000000000)
	}
	if t.Kind == Float {
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(v))), nil
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

func parseFloat(s string, bits int) (float64, error) {
	switch s {
	case "NaN", "+NaN", "-NaN":
		return math.NaN(), nil
	case "Infinity", "+Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	// strconv accepts more than decimal numbers.
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, errForm
	}
	v, err := strconv.ParseFloat(s, bits)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errForm
	}
	return v, nil
}

func encodeBlob(dst, text []byte) ([]byte, error) {
	if len(text) < 2 || text[0] != '0' || text[1] != 'x' {
		return dst, errors.New("the hexadecimal digits of a blob begin with 0x")
	}
	out, err := hex.AppendDecode(dst, text[2:])
	if err != nil {
		return dst, errors.New("not pairs of hexadecimal digits")
	}
	return out, nil
}
