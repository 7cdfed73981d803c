package timeline

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// width is how many columns of a terminal a text takes.
func width(s string) int { return uniseg.StringWidth(s) }

// pad fills a text with spaces up to a width.
func pad(s string, to int) string { return s + strings.Repeat(" ", max(to-width(s), 0)) }

// fit cuts a text to a width, between what a reader sees as letters.
func fit(s string, to int) string {
	if width(s) <= to {
		return s
	}
	var out strings.Builder
	left := to - 1
	for g := uniseg.NewGraphemes(s); g.Next() && g.Width() <= left; left -= g.Width() {
		out.WriteString(g.Str())
	}
	return out.String() + "…"
}

// printable replaces what a terminal would obey rather than show.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\u200d' || r == '\ufe0f' { // which hold emoji together
			return r
		}
		return '·'
	}, s)
}

// The colours, as ANSI escape sequences.
const (
	bold    = "\x1b[1m"
	dim     = "\x1b[2m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	cyan    = "\x1b[36m"
	noPaint = "\x1b[0m"
)

// paint colours a text, if colours are wanted.
func (d *drawing) paint(s, colour string) string {
	if !d.colour || colour == "" || s == "" {
		return s
	}
	return colour + s + noPaint
}

func (d *drawing) heading(s string) string { return d.paint(s, bold) }
func (d *drawing) faint(s string) string   { return d.paint(s, dim) }
