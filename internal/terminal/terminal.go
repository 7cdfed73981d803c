// Package terminal decides how text looks on a terminal: which writer is one, how a text is
// coloured, how wide it is and where it is cut, and the escape sequences of a screen.
package terminal

import (
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Is reports whether a writer is a terminal, on which colour and progress are welcome.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Columns returns the width of the terminal w. When w is no terminal or its width is unknown, it
// returns the value otherwise.
func Columns(w io.Writer, otherwise int) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return otherwise
}

// Style is how a text looks: an ANSI escape sequence, empty for plain text.
type Style string

// The styles.
const (
	Bold      Style = "\x1b[1m"
	Faint     Style = "\x1b[2m"
	Red       Style = "\x1b[31m"
	Green     Style = "\x1b[32m"
	Yellow    Style = "\x1b[33m"
	Cyan      Style = "\x1b[36m"
	BoldRed   Style = "\x1b[1;31m"
	BoldGreen Style = "\x1b[1;32m"

	// end is the end of every style.
	end = "\x1b[0m"
)

// The escape sequences of the alternate screen: enter it and hide the cursor; leave it and show
// the cursor; go to the top left; clear the rest of a line, and of the screen.
const (
	EnterScreen = "\x1b[?1049h\x1b[?25l"
	LeaveScreen = "\x1b[?25h\x1b[?1049l"
	Home        = "\x1b[H"
	ClearLine   = "\x1b[K"
	ClearBelow  = "\x1b[J"
)

// Paint returns a text in a style, or unchanged when colour is false. Painted text must not be
// painted again.
func Paint(text string, s Style, colour bool) string {
	if !colour || s == "" || text == "" {
		return text
	}
	return string(s) + text + end
}

// styles matches what Paint adds.
var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Bare returns a text without what Paint has added.
func Bare(text string) string { return styles.ReplaceAllString(text, "") }

// Width is how many columns a text takes, painted or not.
func Width(text string) int { return uniseg.StringWidth(Bare(text)) }

// Fit cuts a text, painted or not, to at most width columns; width must be 1 or more. It cuts
// between grapheme clusters, and ends a cut text with an ellipsis.
func Fit(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	var b strings.Builder
	used, painted := 0, false
	for text != "" {
		if at := styles.FindStringIndex(text); at != nil && at[0] == 0 {
			painted = text[:at[1]] != end
			b.WriteString(text[:at[1]])
			text = text[at[1]:]
			continue
		}
		cluster, rest, wide, _ := uniseg.FirstGraphemeClusterInString(text, -1)
		if used+wide > width-1 {
			break
		}
		b.WriteString(cluster)
		text, used = rest, used+wide
	}
	b.WriteString("…")
	if painted {
		b.WriteString(end)
	}
	return b.String()
}
