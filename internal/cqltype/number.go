package cqltype

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// maxDigits bounds a varint or the unscaled part of a decimal, because parsing
// digits takes more than linear time. It is more than a partition key can hold.
const maxDigits = 160_000

// appendVarInt appends the digits of a two's complement number.
func appendVarInt(dst, b []byte) []byte {
	if len(b) <= 8 {
		return strconv.AppendInt(dst, integer(b), 10)
	}
	return bigInt(b).Append(dst, 10)
}

// bigInt decodes a two's complement number, most significant byte first.
func bigInt(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}

// appendBigInt appends the shortest two's complement form of a number, which is
// what Java's BigInteger.toByteArray returns.
func appendBigInt(dst []byte, v *big.Int) []byte {
	if v.Sign() >= 0 {
		if v.BitLen()%8 == 0 {
			dst = append(dst, 0)
		}
		return append(dst, v.Bytes()...)
	}
	// -v-1 has the bits of v inverted, and so shows how many bytes v needs.
	inverted := new(big.Int).Not(v)
	start := len(dst)
	if inverted.BitLen()%8 == 0 {
		dst = append(dst, 0)
	}
	dst = append(dst, inverted.Bytes()...)
	for i := range dst[start:] {
		dst[start+i] = ^dst[start+i]
	}
	return dst
}

// appendDecimal appends unscaled × 10^-scale as Java's BigDecimal.toString does:
// plain while the scale is not negative and at most five zeros follow the point,
// else with an exponent.
func appendDecimal(dst []byte, scale int32, unscaled []byte) []byte {
	start := len(dst)
	dst = appendVarInt(dst, unscaled)
	if scale == 0 {
		return dst
	}
	if dst[start] == '-' {
		start++
	}
	digits := len(dst) - start
	exponent := int64(digits-1) - int64(scale)
	if scale > 0 && exponent >= -6 {
		return insertPoint(dst, start, digits-int(scale))
	}
	if digits > 1 {
		dst = insertPoint(dst, start, 1)
	}
	if exponent == 0 {
		return dst
	}
	dst = append(dst, 'E')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, exponent, 10)
}

// insertPoint puts a decimal point after the first n digits of dst[start:], with
// zeros before them if n is not positive.
func insertPoint(dst []byte, start, n int) []byte {
	add := 1
	if n <= 0 {
		add = 2 - n
	}
	for range add {
		dst = append(dst, '0')
	}
	if n > 0 {
		copy(dst[start+n+1:], dst[start+n:])
		dst[start+n] = '.'
		return dst
	}
	copy(dst[start+add:], dst[start:])
	for i := start; i < start+add; i++ {
		dst[i] = '0'
	}
	dst[start+1] = '.'
	return dst
}

// parseBigInt parses an optional sign and decimal digits.
func parseBigInt(text []byte) (*big.Int, error) {
	digits := text
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return nil, errForm
	}
	if len(digits) > maxDigits {
		return nil, fmt.Errorf("more than %d digits", maxDigits)
	}
	for _, c := range digits {
		if !isDigit(c) {
			return nil, errForm
		}
	}
	v := parseDigits(digits)
	if text[0] == '-' {
		v.Neg(v)
	}
	return v, nil
}

// parseDigits parses decimal digits by halves, because big.Int.SetString takes
// quadratic time: 0.1 s for 160,000 digits.
func parseDigits(digits []byte) *big.Int {
	const direct = 1000
	if len(digits) <= direct {
		v, _ := new(big.Int).SetString(string(digits), 10) // digits always parse
		return v
	}
	half := len(digits) / 2
	v := parseDigits(digits[:half])
	v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(digits)-half)), nil))
	return v.Add(v, parseDigits(digits[half:]))
}

// encodeDecimal accepts what Java's BigDecimal does. A JSON number that is no
// integer passes through a double, see EncodeJSON.
func encodeDecimal(dst []byte, tok token) ([]byte, error) {
	text := tok.text
	if tok.kind == numberToken && !isInteger(text) {
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return dst, errors.New("out of range; write it as a string")
		}
		text = appendJavaFloat(nil, v, 64)
	}
	unscaled, scale, err := parseDecimal(text)
	if err != nil {
		return dst, err
	}
	return appendBigInt(binary.BigEndian.AppendUint32(dst, uint32(scale)), unscaled), nil
}

// parseDecimal parses a number with an optional point and exponent as unscaled ×
// 10^-scale. The scale is the number of digits after the point, with zeros,
// minus the exponent.
func parseDecimal(text []byte) (unscaled *big.Int, scale int32, err error) {
	exponent := int64(0)
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		if exponent, err = strconv.ParseInt(string(text[i+1:]), 10, 64); err != nil {
			return nil, 0, errForm
		}
		text = text[:i]
	}
	whole, fraction, _ := bytes.Cut(text, []byte{'.'})
	if len(fraction) > 0 && !isDigit(fraction[0]) {
		return nil, 0, errForm // a sign that would become the number's
	}
	if unscaled, err = parseBigInt(slices.Concat(whole, fraction)); err != nil {
		return nil, 0, err
	}
	// The exponent is checked by itself, because the difference may overflow.
	wide := int64(len(fraction)) - exponent
	if exponent != int64(int32(exponent)) || wide != int64(int32(wide)) {
		return nil, 0, errors.New("out of range")
	}
	return unscaled, int32(wide), nil
}
