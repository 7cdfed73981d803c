package report

import (
	"math"
	"strconv"
	"strings"
)

// number formats v with three significant digits: 0.0123, 1.23, 12.3, 123. From 1,000 on it is a
// whole number with commas.
func number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	// Rounding may add a digit (9.996 is 10.0), so the magnitude is that of the rounded value.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	magnitude := int(math.Floor(math.Log10(math.Abs(rounded))))
	if magnitude < -4 {
		return strconv.FormatFloat(rounded, 'e', 2, 64)
	}
	if magnitude < 3 {
		return strconv.FormatFloat(rounded, 'f', 2-magnitude, 64)
	}
	return commas(strconv.FormatFloat(math.Round(v), 'f', 0, 64))
}

// commas separates the digits of a whole number by thousands.
func commas(digits string) string {
	digits, negative := strings.CutPrefix(digits, "-")
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}

// numeric reports whether a cell reads as a number and is aligned to the right: "12.3", "1,230",
// "0.14 (0.13–0.15)", "3 %", "–".
func numeric(cell string) bool {
	cell = strings.TrimSpace(cell)
	if cell == "" || cell == "–" || cell == "-" {
		return true
	}
	first, _, _ := strings.Cut(cell, " ")
	_, err := strconv.ParseFloat(strings.TrimRight(strings.ReplaceAll(first, ",", ""), "%×xms"), 64)
	return err == nil
}
