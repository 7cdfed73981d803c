package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Percent is a share: 0.02 is two percent. It is written 2% or 0.02.
type Percent float64

// ParsePercent reads 2%, 0.5% or a fraction below 1 such as 0.02. A bare number
// of 1 or more is refused, since 2 could mean 2 % or 200 %.
func ParsePercent(s string) (Percent, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%q is not a percentage; write 2%% or 0.02", s)
	case percent:
		return Percent(v / 100), nil
	case math.Abs(v) >= 1:
		return 0, fmt.Errorf("%q is ambiguous; write %s%%, or the fraction %s", s, digits, strconv.FormatFloat(v/100, 'f', -1, 64))
	}
	return Percent(v), nil
}

// String returns the percentage, such as 2%, to twelve digits.
func (p Percent) String() string {
	// Twelve digits hide that 0.07 × 100 is 7.000000000000001.
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(p)*100, 'g', 12, 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64) + "%"
}

// MarshalText returns the form of String.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what ParsePercent reads.
func (p *Percent) UnmarshalText(text []byte) error { return unmarshal(p, text, ParsePercent) }

// Bytes is a size. It is written 4MiB, 4MB or 4194304.
type Bytes int64

type byteUnit struct {
	suffix string
	size   Bytes
}

// byteUnits are the units of a size. A suffix comes before its own ending, for
// ParseBytes; binary units come before decimal ones, and larger before smaller,
// for String.
var byteUnits = []byteUnit{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3},
	{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10},
	{"B", 1}, {"", 1},
}

// maxBytes is where float64 stops representing every integer; no memory is that
// large.
const maxBytes = 1 << 53

// ParseBytes reads a number of bytes with or without a unit: B, kB, MB and GB
// are decimal, KiB, MiB and GiB (or Ki, Mi, Gi) binary.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		v *= float64(u.size)
		if err != nil || v != math.Trunc(v) || math.Abs(v) > maxBytes {
			break
		}
		return Bytes(v), nil
	}
	return 0, fmt.Errorf("%q is not a size; write 4MiB, 4MB or 4194304", s)
}

// String returns the size in the largest binary unit, or else decimal unit, of
// which it is a whole number.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && u.size > 1 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText returns the form of String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what ParseBytes reads.
func (b *Bytes) UnmarshalText(text []byte) error { return unmarshal(b, text, ParseBytes) }

// Consistency is a consistency level of reads, in CQL's words.
type Consistency string

var consistencyLevels = []Consistency{
	"LOCAL_ONE", "NODE_LOCAL", "LOCAL_QUORUM", "ONE", "TWO", "THREE", "QUORUM", "EACH_QUORUM", "ALL",
}

// ParseConsistency reads a consistency level in either case.
func ParseConsistency(s string) (Consistency, error) {
	c := Consistency(strings.ToUpper(strings.TrimSpace(s)))
	if slices.Contains(consistencyLevels, c) {
		return c, nil
	}
	why := "is not a consistency level"
	switch c {
	case "SERIAL", "LOCAL_SERIAL":
		why = "is for reads of one partition, not for lookups of many keys"
	case "ANY":
		why = "is for writes only"
	}
	names := make([]string, len(consistencyLevels))
	for i, l := range consistencyLevels {
		names[i] = string(l)
	}
	return "", fmt.Errorf("%q %s; use %s", s, why, strings.Join(names, ", "))
}

// MarshalText returns the level.
func (c Consistency) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText reads what ParseConsistency reads.
func (c *Consistency) UnmarshalText(text []byte) error { return unmarshal(c, text, ParseConsistency) }

// unmarshal sets *v to the parsed text, unless parse fails.
func unmarshal[T any](v *T, text []byte, parse func(string) (T, error)) error {
	parsed, err := parse(string(text))
	if err == nil {
		*v = parsed
	}
	return err
}

// parseDuration reads a duration of Go, such as 15ms.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, bare := strconv.ParseFloat(s, 64); bare == nil {
		return 0, fmt.Errorf("%q has no unit; write %sms or %ss", s, s, s)
	}
	return 0, fmt.Errorf("%q is not a duration; write 15ms, 2s or 1m30s", s)
}

// formatDuration is Duration.String without the zeros of 1m0s and 2h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
