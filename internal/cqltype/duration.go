package cqltype

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// duration is a value of the CQL type duration. Its parts have the same sign.
type duration struct {
	months, days int32
	nanos        int64
}

// duration decodes a cell of three zigzag vints. Like Cassandra it ignores
// bytes after them.
func (t *Type) duration(cell []byte) (duration, error) {
	var parts [3]int64
	for i := range parts {
		u, used := uvint(cell)
		if used == 0 {
			return duration{}, t.malformed(errTruncated)
		}
		parts[i], cell = int64(u>>1)^-int64(u&1), cell[used:]
	}
	d := duration{int32(parts[0]), int32(parts[1]), parts[2]}
	switch {
	case int64(d.months) != parts[0] || int64(d.days) != parts[1]:
		return d, t.malformed(errors.New("months or days exceed 32 bits"))
	case (d.months < 0 || d.days < 0 || d.nanos < 0) && (d.months > 0 || d.days > 0 || d.nanos > 0):
		return d, t.malformed(errors.New("months, days and nanoseconds of different sign"))
	}
	return d, nil
}

// appendCell appends what Type.duration decodes.
func (d duration) appendCell(dst []byte) []byte {
	for _, v := range [...]int64{int64(d.months), int64(d.days), d.nanos} {
		dst = appendUvint(dst, uint64(v<<1)^uint64(v>>63))
	}
	return dst
}

// append appends the duration as Cassandra does: 1y2mo3d4h5m6s7ms8us9ns without
// the parts that are zero, and nothing for a duration of zero.
func (d duration) append(dst []byte) []byte {
	if d.months < 0 || d.days < 0 || d.nanos < 0 {
		dst = append(dst, '-')
	}
	months := abs(int64(d.months))
	dst = appendUnit(dst, months/12, "y")
	dst = appendUnit(dst, months%12, "mo")
	dst = appendUnit(dst, abs(int64(d.days)), "d")
	nanos := abs(d.nanos)
	dst = appendUnit(dst, nanos/(3600*1e9), "h")
	dst = appendUnit(dst, nanos/(60*1e9)%60, "m")
	dst = appendUnit(dst, nanos/1e9%60, "s")
	dst = appendUnit(dst, nanos/1e6%1e3, "ms")
	dst = appendUnit(dst, nanos/1e3%1e3, "us")
	return appendUnit(dst, nanos%1e3, "ns")
}

func appendUnit(dst []byte, v uint64, unit string) []byte {
	if v == 0 {
		return dst
	}
	return append(strconv.AppendUint(dst, v, 10), unit...)
}

// abs is unsigned, since that of the smallest int64 does not fit.
func abs(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// durationUnits are the units of a duration in their required order. part is an
// index of durationBuilder.parts, and worth the size of the unit in it.
var durationUnits = []struct {
	name  string
	part  int
	worth int64
}{
	{"y", 0, 12}, {"mo", 0, 1}, {"w", 1, 7}, {"d", 1, 1},
	{"h", 2, 3600 * 1e9}, {"m", 2, 60 * 1e9}, {"s", 2, 1e9},
	{"ms", 2, 1e6}, {"us", 2, 1e3}, {"ns", 2, 1},
}

// parseDuration parses Cassandra's three forms: 1y2mo3w4d5h6m7s8ms9us10ns, ISO
// 8601 P1Y2M3DT4H5M6S or P1W, and P0001-02-03T04:05:06, each with an optional
// minus before it. Units may be left out, but not reordered.
func parseDuration(s string) (duration, error) {
	rest, negative := strings.CutPrefix(s, "-")
	var b durationBuilder
	var err error
	iso, isISO := strings.CutPrefix(rest, "P")
	switch {
	case rest == "":
		err = errForm
	case !isISO:
		err = b.standard(rest)
	case strings.Contains(iso, "-"):
		err = b.alternative(iso)
	default:
		err = b.iso(iso)
	}
	if err != nil {
		return duration{}, err
	}
	d := duration{int32(b.parts[0]), int32(b.parts[1]), b.parts[2]}
	if negative {
		d = duration{-d.months, -d.days, -d.nanos}
	}
	return d, nil
}

// durationBuilder adds up months, days and nanoseconds.
type durationBuilder struct {
	parts [3]int64
	// next is the index of the first unit that may still follow.
	next int
}

// add adds n of the unit.
func (b *durationBuilder) add(digits, unit string) error {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return errors.New("out of range")
	}
	for i, u := range durationUnits {
		if u.name != unit {
			continue
		}
		if i < b.next {
			return fmt.Errorf("unit %s given twice or out of order", unit)
		}
		limit := int64(math.MaxInt32)
		if u.part == 2 {
			limit = math.MaxInt64
		}
		if n > (limit-b.parts[u.part])/u.worth {
			return errors.New("out of range")
		}
		b.parts[u.part] += n * u.worth
		b.next = i + 1
		return nil
	}
	return errForm
}

// standard parses numbers with units in upper or lower case.
func (b *durationBuilder) standard(s string) error {
	s = strings.ReplaceAll(strings.ToLower(s), "µs", "us")
	for s != "" {
		n := len(s) - len(strings.TrimLeft(s, "0123456789"))
		unit := n + len(s[n:]) - len(strings.TrimLeft(s[n:], "ymowdhsun"))
		if n == 0 || unit == n {
			return errForm
		}
		if err := b.add(s[:n], s[n:unit]); err != nil {
			return err
		}
		s = s[unit:]
	}
	return nil
}

// iso parses what follows the P of P1Y2M3DT4H5M6S or P1W.
func (b *durationBuilder) iso(s string) error {
	units := map[byte]string{'Y': "y", 'M': "mo", 'D': "d"}
	if strings.HasSuffix(s, "W") {
		units = map[byte]string{'W': "w"}
	}
	for s != "" {
		if s[0] == 'T' && units['H'] == "" && units['W'] == "" {
			units = map[byte]string{'H': "h", 'M': "m", 'S': "s"}
			s = s[1:]
			continue
		}
		n := len(s) - len(strings.TrimLeft(s, "0123456789"))
		if n == 0 || n == len(s) || units[s[n]] == "" {
			return errForm
		}
		if err := b.add(s[:n], units[s[n]]); err != nil {
			return err
		}
		s = s[n+1:]
	}
	return nil
}

// alternative parses what follows the P of P0001-02-03T04:05:06.
func (b *durationBuilder) alternative(s string) error {
	const form = "0000-00-00T00:00:00"
	if len(s) != len(form) {
		return errForm
	}
	for i := range len(form) {
		if form[i] == '0' != isDigit(s[i]) || form[i] != '0' && s[i] != form[i] {
			return errForm
		}
	}
	for _, p := range []struct {
		from, to int
		unit     string
	}{{0, 4, "y"}, {5, 7, "mo"}, {8, 10, "d"}, {11, 13, "h"}, {14, 16, "m"}, {17, 19, "s"}} {
		if err := b.add(s[p.from:p.to], p.unit); err != nil {
			return err
		}
	}
	return nil
}
