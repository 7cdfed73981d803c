package cqltype

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
)

// encodeMoment appends the bytes of a date, time, timestamp or duration.
func (t *Type) encodeMoment(dst []byte, s string) ([]byte, error) {
	switch t.Kind {
	case Date:
		days, err := parseDate(s)
		return binary.BigEndian.AppendUint32(dst, days), err
	case Time:
		nanos, err := parseTime(s)
		return binary.BigEndian.AppendUint64(dst, uint64(nanos)), err
	case Timestamp:
		millis, err := parseTimestamp(s)
		return binary.BigEndian.AppendUint64(dst, uint64(millis)), err
	default:
		d, err := parseDuration(s)
		return d.appendCell(dst), err
	}
}

// allDigits reports whether s is a number without fraction or exponent.
func allDigits(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// parseDate parses yyyy-MM-dd, with a sign if the year is negative or has more
// than four digits, or the unsigned number of the cell. It returns the latter:
// days since 1970-01-01 plus 2^31.
func parseDate(s string) (uint32, error) {
	if allDigits(s) {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return 0, errors.New("a day number is from 0 to 4294967295, with 1970-01-01 at 2147483648")
		}
		return uint32(v), nil
	}
	c := cursor(s)
	signed := strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-")
	days, ok := c.date(4)
	if !ok || c != "" {
		return 0, errForm
	}
	if digits := strings.IndexByte(s[1:], '-') + 1; !signed && digits > 4 {
		return 0, errors.New("a year of more than four digits needs a sign")
	}
	if days < math.MinInt32 || days > math.MaxInt32 {
		return 0, errors.New("dates are from -5877641-06-23 to +5881580-07-11")
	}
	return uint32(days + 1<<31), nil
}

// parseTime parses HH:mm:ss with up to nine decimals, or nanoseconds since
// midnight.
func parseTime(s string) (int64, error) {
	errRange := errors.New("a time is from 00:00:00 to 23:59:59.999999999")
	if allDigits(s) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 || v >= nanosPerDay {
			return 0, errRange
		}
		return v, nil
	}
	c := cursor(strings.TrimSpace(s))
	seconds, hasSeconds, ok := c.clock()
	if !ok || !hasSeconds {
		return 0, errForm
	}
	nanos, ok := c.fraction()
	if !ok || c != "" {
		return 0, errForm
	}
	return seconds*1e9 + nanos, nil
}

// parseTimestamp parses milliseconds since 1970, or a date with or without a
// time and a zone: 2011-02-03, 2011-02-03 04:05Z, 2011-02-03T04:05:06.789+0100.
// Without a zone it uses UTC. Cassandra would use that of its host, which is not
// known here.
func parseTimestamp(s string) (int64, error) {
	if allDigits(s) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, errors.New("out of range")
		}
		return v, nil
	}
	c := cursor(s)
	days, ok := c.date(1)
	if !ok {
		return 0, errForm
	}
	var seconds, nanos int64
	if len(c) > 1 && (c[0] == 'T' || c[0] == ' ' && isDigit(c[1])) {
		c = c[1:]
		if seconds, _, ok = c.clock(); !ok {
			return 0, errForm
		}
		if nanos, ok = c.fraction(); !ok {
			return 0, errForm
		}
	}
	offset, ok := parseZone(string(c))
	if !ok {
		return 0, errForm
	}
	if limit := int64(math.MaxInt64 / millisPerDay); days >= limit || days <= -limit {
		return 0, errors.New("out of range")
	}
	return days*millisPerDay + (seconds-offset)*1e3 + nanos/1e6, nil
}

// parseZone parses nothing, Z, UTC, GMT, ±hh, ±hhmm or ±hh:mm after an optional
// space, and returns the seconds east of Greenwich.
func parseZone(s string) (seconds int64, ok bool) {
	if s == "" {
		return 0, true
	}
	switch s = strings.TrimPrefix(s, " "); s {
	case "Z", "UTC", "GMT":
		return 0, true
	case "":
		return 0, false
	}
	digits := strings.Replace(s[1:], ":", "", 1)
	if len(digits) == 2 {
		digits += "00"
	}
	v, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || len(digits) != 4 || v/100 > 18 || v%100 > 59 || s[0] != '+' && s[0] != '-' ||
		len(s) == 6 && s[3] != ':' || len(s) == 4 {
		return 0, false
	}
	seconds = int64(v/100)*3600 + int64(v%100)*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// cursor is the rest of a date or time that is being parsed.
type cursor string

// number consumes low to high digits.
func (c *cursor) number(low, high int) (v int64, ok bool) {
	n := 0
	for n < len(*c) && n < high && isDigit((*c)[n]) {
		v = 10*v + int64((*c)[n]-'0')
		n++
	}
	*c = (*c)[n:]
	return v, n >= low
}

// skip consumes b and reports whether it was there.
func (c *cursor) skip(b byte) bool {
	if *c == "" || (*c)[0] != b {
		return false
	}
	*c = (*c)[1:]
	return true
}

// date consumes a date whose year has at least yearDigits digits and returns its
// days since 1970. Months and days have one or two digits, two if the year has
// to have four.
func (c *cursor) date(yearDigits int) (days int64, ok bool) {
	negative := c.skip('-')
	if !negative {
		c.skip('+')
	}
	low := min(yearDigits, 2)
	year, okYear := c.number(yearDigits, 10)
	okYear = okYear && c.skip('-')
	month, okMonth := c.number(low, 2)
	okMonth = okMonth && c.skip('-')
	day, okDay := c.number(low, 2)
	if negative {
		year = -year
	}
	if !okYear || !okMonth || !okDay || month < 1 || month > 12 || day < 1 || day > int64(daysIn(year, int(month))) {
		return 0, false
	}
	return daysOf(year, int(month), int(day)), true
}

// clock consumes H:m or H:m:s and returns the seconds since midnight.
func (c *cursor) clock() (seconds int64, hasSeconds, ok bool) {
	hour, okHour := c.number(1, 2)
	okHour = okHour && c.skip(':')
	minute, okMinute := c.number(1, 2)
	second, okSecond := int64(0), true
	if hasSeconds = c.skip(':'); hasSeconds {
		second, okSecond = c.number(1, 2)
	}
	ok = okHour && okMinute && okSecond && hour < 24 && minute < 60 && second < 60
	return hour*3600 + minute*60 + second, hasSeconds, ok
}

// fraction consumes a point and up to nine digits, or nothing, and returns
// nanoseconds.
func (c *cursor) fraction() (nanos int64, ok bool) {
	if !c.skip('.') {
		return 0, true
	}
	before := len(*c)
	nanos, ok = c.number(1, 9)
	for range 9 - (before - len(*c)) {
		nanos *= 10
	}
	return nanos, ok
}
