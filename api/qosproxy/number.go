package qosproxy

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Decimal is a CQL decimal, Unscaled × 10^-Scale. To Cassandra, equal numbers of
// different scale are different values, and so different keys.
type Decimal struct {
	// Unscaled is the number without its decimal point; nil is 0.
	Unscaled *big.Int
	// Scale is the number of digits after the decimal point; negative for trailing
	// zeros before it.
	Scale int32
}

// ParseDecimal parses a decimal such as 19.50 or -1.5e-7. The scale is that of the
// text: 19.50 and 19.5 are different values.
func ParseDecimal(s string) (Decimal, error) {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	scale := int64(len(fraction))
	if scientific {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return Decimal{}, fmt.Errorf("%q is not a decimal", s)
		}
		scale -= e
	}
	unscaled, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || strings.Contains(whole+fraction, "_") || strings.ContainsAny(fraction, "+-") || int64(int32(scale)) != scale {
		return Decimal{}, fmt.Errorf("%q is not a decimal", s)
	}
	return Decimal{unscaled, int32(scale)}, nil
}

// String returns the decimal as cqlsh writes it, such as 19.50. It uses scientific
// notation where the point is far from the digits.
func (d Decimal) String() string {
	unscaled := d.Unscaled
	if unscaled == nil {
		unscaled = new(big.Int)
	}
	digits := new(big.Int).Abs(unscaled).String()
	sign := ""
	if unscaled.Sign() < 0 {
		sign = "-"
	}
	adjusted := int64(len(digits)) - 1 - int64(d.Scale)
	switch {
	case d.Scale == 0:
		return sign + digits
	case d.Scale > 0 && adjusted >= -6:
		if missing := int(d.Scale) + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		point := len(digits) - int(d.Scale)
		return sign + digits[:point] + "." + digits[point:]
	case len(digits) > 1:
		digits = digits[:1] + "." + digits[1:]
	}
	return fmt.Sprintf("%s%sE%+d", sign, digits, adjusted)
}

// Duration is a CQL duration: a span in three units that do not convert into each
// other. All three must have the same sign.
type Duration struct {
	// Months, Days and Nanoseconds are the parts of the span.
	Months, Days int32
	Nanoseconds  int64
}

// Empty is the value of zero bytes. Cassandra allows it for types in which zero bytes
// have no other meaning, such as int. It is not null.
type Empty struct{}

// twosComplement returns a number as Cassandra serializes it: in the fewest bytes that
// hold the number and its sign.
func twosComplement(n *big.Int) []byte {
	if n == nil || n.Sign() == 0 {
		return []byte{0}
	}
	if n.Sign() > 0 {
		b := n.Bytes()
		if b[0] >= 0x80 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	// -n-1 has the inverse bits of n.
	b := new(big.Int).Not(n).Bytes()
	if len(b) == 0 || b[0] >= 0x80 {
		b = append([]byte{0}, b...)
	}
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// bigInt is the inverse of twosComplement.
func bigInt(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n
}

func decimalOf(d *qosproxyv1.DecimalValue) Decimal {
	return Decimal{bigInt(d.GetUnscaled()), d.GetScale()}
}

func spanOf(d *qosproxyv1.DurationValue) Duration {
	return Duration{d.GetMonths(), d.GetDays(), d.GetNanoseconds()}
}
