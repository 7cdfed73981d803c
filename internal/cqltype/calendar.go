package cqltype

import (
	"encoding/binary"
	"strconv"
)

const (
	nanosPerDay  = 24 * 60 * 60 * 1000_000_000
	millisPerDay = 24 * 60 * 60 * 1000
	// daysToEpoch is the number of days from 0000-03-01 to 1970-01-01.
	daysToEpoch = 719468
	// daysPerEra is the number of days in 400 years, after which the calendar
	// repeats.
	daysPerEra = 146097
)

// dateDays returns the days since 1970-01-01 of a date cell, which stores them
// as an unsigned 32-bit number with 2^31 added.
func dateDays(cell []byte) int32 {
	return int32(binary.BigEndian.Uint32(cell) - 1<<31)
}

// civil returns the date of a day since 1970-01-01 in the proleptic Gregorian
// calendar; year 0 is the one before year 1. Package time cannot be used: years
// of a CQL date reach ±5.8 million, those of a timestamp ±292 million.
// Years are counted from March, so that the leap day comes last
// (https://howardhinnant.github.io/date_algorithms.html).
func civil(days int64) (year int64, month, day int) {
	days += daysToEpoch
	era := floorDiv(days, daysPerEra)
	d := days - era*daysPerEra
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	day = int(d - (153*m+2)/5 + 1)
	month = int(m) + 3
	year = y + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// daysOf is the inverse of civil.
func daysOf(year int64, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	y := year - era*400
	d := int64((153*(month-3)+2)/5+day-1) + 365*y + y/4 - y/100
	return era*daysPerEra + d - daysToEpoch
}

// daysIn returns the number of days of a month.
func daysIn(year int64, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// appendPadded appends v with at least width digits.
func appendPadded(dst []byte, v int64, width int) []byte {
	limit := int64(10)
	for range width - 1 {
		if v < limit {
			dst = append(dst, '0')
		}
		limit *= 10
	}
	return strconv.AppendInt(dst, v, 10)
}

// appendDate appends yyyy-MM-dd. Years over 9999 have a plus, as in ISO 8601.
func appendDate(dst []byte, days int32) []byte {
	year, month, day := civil(int64(days))
	if year < 0 {
		dst = append(dst, '-')
		year = -year
	} else if year > 9999 {
		dst = append(dst, '+')
	}
	return appendMonthDay(dst, year, month, day)
}

func appendMonthDay(dst []byte, year int64, month, day int) []byte {
	dst = appendPadded(dst, year, 4)
	dst = appendPadded(append(dst, '-'), int64(month), 2)
	return appendPadded(append(dst, '-'), int64(day), 2)
}

// appendTimestamp appends milliseconds since 1970 as yyyy-MM-dd HH:mm:ss.SSSZ.
// The year is that of the era, which is not named: year 0, or 1 BC, reads 0001.
func appendTimestamp(dst []byte, millis int64) []byte {
	days := floorDiv(millis, millisPerDay)
	millis -= days * millisPerDay
	year, month, day := civil(days)
	if year <= 0 {
		year = 1 - year
	}
	if year > 9999 {
		dst = append(dst, '+')
	}
	dst = append(appendMonthDay(dst, year, month, day), ' ')
	dst = appendClock(dst, millis/1000)
	dst = appendPadded(append(dst, '.'), millis%1000, 3)
	return append(dst, 'Z')
}

// appendTime appends nanoseconds since midnight as HH:mm:ss.nnnnnnnnn.
func appendTime(dst []byte, nanos int64) []byte {
	dst = appendClock(dst, nanos/1e9)
	return appendPadded(append(dst, '.'), nanos%1e9, 9)
}

// appendClock appends seconds since midnight as HH:mm:ss.
func appendClock(dst []byte, s int64) []byte {
	dst = appendPadded(dst, s/3600, 2)
	dst = appendPadded(append(dst, ':'), s/60%60, 2)
	return appendPadded(append(dst, ':'), s%60, 2)
}
