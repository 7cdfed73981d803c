package timeline

import (
	"strings"
	"unicode"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

// pad appends spaces to a text up to a width.
func pad(s string, to int) string { return s + strings.Repeat(" ", max(to-terminal.Width(s), 0)) }

// printable replaces unprintable characters, which a terminal might obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\u200d' || r == '\ufe0f' { // these two hold emoji together
			return r
		}
		return '·'
	}, s)
}

// paint colours a text, if colours are enabled.
func (d *drawing) paint(s string, style terminal.Style) string {
	return terminal.Paint(s, style, d.colour)
}

func (d *drawing) heading(s string) string { return d.paint(s, terminal.Bold) }
func (d *drawing) faint(s string) string   { return d.paint(s, terminal.Faint) }
