package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

// The layout of a report on a terminal, in columns: where names of checks and texts begin, the
// width of why and mend, and the longest line.
const (
	checkColumn = 9
	textColumn  = 23
	adviceAfter = 6
	lineWidth   = 80
)

var styles = map[Level]terminal.Style{Problem: terminal.BoldRed, Warning: terminal.Yellow, Note: terminal.Cyan, OK: terminal.Green}

// Print writes the report as text, with colours if colour is set.
func (r *Report) Print(w io.Writer, colour bool) error {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(terminal.Paint(fmt.Sprintf("%-*s", checkColumn, f.Level), styles[f.Level], colour))
		fmt.Fprintf(&b, "%-*s%s\n", textColumn-checkColumn, f.Check, wrap(f.Found, textColumn))
		for _, advice := range [][2]string{{"why", f.Why}, {"mend", f.Mend}} {
			if advice[1] != "" {
				fmt.Fprintf(&b, "%*s%-*s%s\n", checkColumn, "", adviceAfter, advice[0], wrap(advice[1], checkColumn+adviceAfter))
			}
		}
	}
	if len(r.Findings) > 0 {
		b.WriteByte('\n')
	}
	for i, l := range levels {
		name := string(l)
		if n := r.Counts[l]; n != 1 && l != OK {
			name += "s"
		}
		fmt.Fprintf(&b, "%s%d %s", []string{"", ", "}[min(i, 1)], r.Counts[l], name)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text between words into lines that begin at a column and end before lineWidth;
// the first one is not indented. A word that is too long for a line is broken, too.
func wrap(text string, column int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && terminal.Width(line)+1+terminal.Width(word) <= lineWidth-column {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		runes := []rune(word)
		for len(runes) > lineWidth-column {
			lines = append(lines, string(runes[:lineWidth-column]))
			runes = runes[lineWidth-column:]
		}
		line = string(runes)
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", column))
}
