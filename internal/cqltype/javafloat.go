package cqltype

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Cassandra 5.0 runs on Java 11 or 17, whose Double.toString and Float.toString
// do not always print the shortest digits that read back as the same number,
// unlike strconv. Most of Java's digits come from the method of Steele and White
// ("How to print floating-point numbers accurately", 1990), with three visible
// shortcuts: integers up to 2^63 lose the digits below half a unit of the last
// place, numbers that fit 64 bits when scaled are computed in such integers and
// may overflow, and a number in exponent notation has at least two digits. To
// print the same text, this file does the same, and uses strconv in the ranges
// where none of this matters.

// appendJavaFloat appends a finite number as Java's Float.toString (bits 32) or
// Double.toString (bits 64).
func appendJavaFloat(dst []byte, v float64, bits int) []byte {
	if math.Signbit(v) {
		dst = append(dst, '-')
		v = -v
	}
	if v == 0 {
		return append(dst, "0.0"...)
	}
	var buf [32]byte
	digits, exp := javaDigits(buf[:0], v, bits)
	return layoutDigits(dst, digits, exp)
}

// layoutDigits appends 0.d₁d₂… × 10^exp: plain from 10^-3 up to below 10^7, else
// with an exponent, always with a digit on both sides of the point.
func layoutDigits(dst, digits []byte, exp int) []byte {
	switch {
	case exp > -3 && exp <= 0:
		dst = append(dst, "0.00"[:2-exp]...)
		return append(dst, digits...)
	case exp > 0 && exp < 8:
		whole := min(exp, len(digits))
		dst = append(dst, digits[:whole]...)
		for range exp - whole {
			dst = append(dst, '0')
		}
		return appendFraction(dst, digits[whole:])
	default:
		dst = appendFraction(append(dst, digits[0]), digits[1:])
		return strconv.AppendInt(append(dst, 'E'), int64(exp-1), 10)
	}
}

func appendFraction(dst, digits []byte) []byte {
	dst = append(dst, '.')
	if len(digits) == 0 {
		return append(dst, '0')
	}
	return append(dst, digits...)
}

// mantissaExp is a positive number as mantissa × 2^(exp-(precision-1)), with the
// highest bit of the mantissa set.
type mantissaExp struct {
	mantissa uint64
	exp      int
	// precision is 53 or 24; significant is that, or less for a subnormal number.
	precision, significant int
}

func decompose(v float64, size int) mantissaExp {
	n := mantissaExp{precision: 53}
	minExp := -1022
	if size == 32 {
		n.precision, minExp = 24, -126
	}
	frac, exp := math.Frexp(v)
	n.mantissa = uint64(math.Ldexp(frac, n.precision))
	n.exp = exp - 1
	n.significant = n.precision - max(0, minExp-n.exp)
	return n
}

// shortestIsJava reports whether Java's digits of a number that is no integer are
// the shortest ones. They can differ for a power of two, whose two neighbours are
// at different distances, and where the middle between two neighbours has few
// enough decimal digits to be hit exactly. That begins shortly before the last
// place of the mantissa is worth 1.
func (n mantissaExp) shortestIsJava() bool {
	return n.exp < n.precision-6 && n.significant == n.precision && n.mantissa&(n.mantissa-1) != 0
}

// javaDigits appends the digits that Java prints for v, which must be positive,
// and returns them with the exponent of 0.d₁d₂… × 10^exp.
func javaDigits(buf []byte, v float64, size int) (digits []byte, exp int) {
	n := decompose(v, size)
	width := n.precision - bits.TrailingZeros64(n.mantissa)
	switch {
	case n.exp <= 62 && width <= n.exp+1:
		return integerDigits(buf, n)
	case n.shortestIsJava():
		return shortestDigits(buf, v, size)
	default:
		return steeleWhite(buf, n, width)
	}
}

// integerDigits returns the digits of an integer below 2^63, rounded to the last
// digit that is worth more than half a unit of the mantissa's last place.
func integerDigits(buf []byte, n mantissaExp) (digits []byte, exp int) {
	v := n.mantissa
	if shift := n.exp - (n.precision - 1); shift >= 0 {
		v <<= shift
	} else {
		v >>= -shift
	}
	if spare := n.exp - n.significant - 1; spare > 1 {
		unit := uint64(1)
		for range int(float64(spare) * math.Log10(2)) {
			unit *= 10
			exp++
		}
		if unit > 1 {
			v = (v + unit/2) / unit
		}
	}
	digits = strconv.AppendUint(buf, v, 10)
	exp += len(digits)
	for len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return digits, exp
}

// shortestDigits returns the shortest digits that read back as v.
func shortestDigits(buf []byte, v float64, size int) (digits []byte, exp int) {
	b := strconv.AppendFloat(buf, v, 'e', -1, size)
	e := len(b) - 1
	for b[e] != 'e' {
		e--
	}
	neg := b[e+1] == '-'
	for _, c := range b[e+2:] {
		exp = 10*exp + int(c-'0')
	}
	if neg {
		exp = -exp
	}
	digits = b[:e]
	if e > 1 {
		digits = append(b[:1], b[2:e]...)
	}
	return digits, exp + 1
}

// scaling is a number as the fraction b / s, and half a unit of its last place
// as m / s, each a product of powers: b = odd·5^b5·2^b2, s = 5^s5·2^s2,
// m = 5^b5·2^m2, such that b / s has one digit before the point.
type scaling struct {
	odd                uint64
	b5, b2, s5, s2, m2 int
}

func (n mantissaExp) scale(width, exp10 int) scaling {
	tiny := max(0, width-n.exp-1)
	k := scaling{odd: n.mantissa >> (n.precision - width), b5: max(0, -exp10), s5: max(0, exp10)}
	k.b2 = k.b5 + tiny + n.exp
	k.s2 = k.s5 + tiny
	k.m2 = k.b2 - n.significant
	k.b2 -= width - 1
	common := min(k.b2, k.s2)
	k.b2 -= common
	k.s2 -= common
	k.m2 -= common
	if width == 1 {
		k.m2-- // below a power of two the neighbour is half as far
	}
	if k.m2 < 0 {
		k.b2 -= k.m2
		k.s2 -= k.m2
		k.m2 = 0
	}
	return k
}

// steeleWhite generates digits until the remainder is less than half a unit of
// the last place from zero or from the next digit. width is the number of bits of
// the mantissa up to the last that is set.
func steeleWhite(buf []byte, n mantissaExp, width int) (digits []byte, exp int) {
	// The tangent of log10 at 1.5, by David M. Gay's dtoa: never too small, and
	// too large by at most one.
	fraction := math.Ldexp(float64(n.mantissa), 1-n.precision)
	exp = int(math.Floor((fraction-1.5)*0.289529654 + 0.176091259 + float64(n.exp)*0.301029995663981))
	k := n.scale(width, exp)
	needB := width + k.b2 + bitsOfPow5(k.b5)
	needS := k.s2 + 1 + bitsOfPow5(k.s5+1)
	long := exp < -3 || exp >= 8
	var end ending
	if needB < 64 && needS < 64 {
		digits, end = generate(buf, k, long)
	} else {
		digits, end = generateBig(buf, k, long)
	}
	if end.leadingZero {
		exp--
	}
	if end.up && roundUp(digits) {
		exp++
	}
	return digits, exp + 1
}

// ending says how the generation of digits ended.
type ending struct {
	// leadingZero is whether a first digit was zero and left out.
	leadingZero bool
	// up is whether the last digit is to be rounded up.
	up bool
}

// generate uses 64-bit integers, which must overflow as Java's do.
func generate(buf []byte, k scaling, long bool) ([]byte, ending) {
	five := int64(pow5(k.b5))
	b := int64(k.odd) * five << k.b2
	s := int64(pow5(k.s5)) << k.s2
	m := five << k.m2
	tens := s * 10
	var end ending
	var low, high bool
	for first := true; first || !low && !high; first = false {
		q := b / s
		b = 10 * (b % s)
		m *= 10
		low, high = b < m, b+m > tens
		if !first && m <= 0 {
			low, high = true, true
		}
		if first && q == 0 && !high {
			end.leadingZero = true
		} else {
			buf = append(buf, '0'+byte(q))
		}
		if first && long {
			low, high = false, false
		}
	}
	double := b<<1 - tens
	end.up = high && (!low || double > 0 || double == 0 && buf[len(buf)-1]&1 == 1)
	return buf, end
}

// generateBig is generate for numbers of any size.
func generateBig(buf []byte, k scaling, long bool) ([]byte, ending) {
	b := new(big.Int).SetUint64(k.odd)
	b.Mul(b, bigPow5(k.b5)).Lsh(b, uint(k.b2))
	s := bigPow5(k.s5)
	s.Lsh(s, uint(k.s2))
	m := bigPow5(k.b5)
	m.Lsh(m, uint(k.m2))
	ten := big.NewInt(10)
	tens := new(big.Int).Mul(s, ten)
	q, sum := new(big.Int), new(big.Int)
	var end ending
	var low, high bool
	for first := true; first || !low && !high; first = false {
		q.QuoRem(b, s, b)
		b.Mul(b, ten)
		m.Mul(m, ten)
		low, high = b.Cmp(m) < 0, sum.Add(b, m).Cmp(tens) >= 0
		if first && q.Sign() == 0 && !high {
			end.leadingZero = true
		} else {
			buf = append(buf, '0'+byte(q.Uint64()))
		}
		if first && long {
			low, high = false, false
		}
	}
	double := b.Lsh(b, 1).Cmp(tens)
	end.up = high && (!low || double > 0 || double == 0 && buf[len(buf)-1]&1 == 1)
	return buf, end
}

// roundUp adds one to the last digit. It reports whether all digits were 9, and
// have become 1 followed by zeros, worth ten times as much.
func roundUp(digits []byte) (carried bool) {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			return false
		}
		digits[i] = '0'
	}
	digits[0] = '1'
	return true
}

// bitsOfPow5 returns how many bits Java assumes for 5^n: none for n = 0, and 3n
// for n above 26.
func bitsOfPow5(n int) int {
	switch {
	case n == 0:
		return 0
	case n <= 26:
		return bits.Len64(pow5(n))
	default:
		return 3 * n
	}
}

// pow5 returns 5^n for n up to 27.
func pow5(n int) uint64 {
	v := uint64(1)
	for range n {
		v *= 5
	}
	return v
}

func bigPow5(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(n)), nil)
}
