package report

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

// cell is one cell of a grid.
type cell struct {
	text  string
	style terminal.Style
	// left aligns its column to the left even if all cells are numeric.
	left bool
}

// grid prints rows of cells in aligned columns, two spaces apart, numeric columns to the right. The
// first row is the head.
type grid struct {
	// groups has the heading above each column, equal for neighbours that share it; nil for none.
	groups []string
	rows   [][]cell
	colour bool
}

func (g *grid) add(row ...cell) { g.rows = append(g.rows, row) }

func (g *grid) write(w io.Writer) {
	widths, right := g.layout()
	if g.groups != nil {
		g.writeGroups(w, widths)
	}
	for _, row := range g.rows {
		var line strings.Builder
		for j, c := range row {
			padding := strings.Repeat(" ", widths[j]-terminal.Width(c.text))
			if right[j] {
				line.WriteString(padding + g.paint(c))
			} else {
				line.WriteString(g.paint(c) + padding)
			}
			line.WriteString("  ")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// layout returns the width of each column and whether it is right-aligned.
func (g *grid) layout() (widths []int, right []bool) {
	for i, row := range g.rows {
		for j, c := range row {
			if j == len(widths) {
				widths, right = append(widths, 0), append(right, true)
			}
			widths[j] = max(widths[j], terminal.Width(c.text))
			if i > 0 && (c.left || !numeric(c.text)) {
				right[j] = false
			}
		}
	}
	for from, to := range g.spans() {
		if missing := terminal.Width(g.groups[from]) - across(widths[from:to]); missing > 0 {
			widths[from] += missing
		}
	}
	return widths, right
}

// spans yields the range of columns, from to (exclusive), of each group.
func (g *grid) spans() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for from := 0; from < len(g.groups); {
			to := from + 1
			for to < len(g.groups) && g.groups[to] == g.groups[from] {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// across returns the width of neighbouring columns, including the gaps between them.
func across(widths []int) int {
	sum := 2 * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// writeGroups writes each heading centred above its columns, between dashes.
func (g *grid) writeGroups(w io.Writer, widths []int) {
	var line strings.Builder
	for from, to := range g.spans() {
		wide := across(widths[from:to])
		if name := g.groups[from]; name == "" {
			line.WriteString(strings.Repeat(" ", wide+2))
		} else {
			dashes := wide - terminal.Width(name) - 2
			before := max(dashes/2, 0)
			name = strings.Repeat("─", before) + " " + name + " " + strings.Repeat("─", max(dashes-before, 0))
			if dashes < 0 {
				name = g.groups[from] + strings.Repeat(" ", wide-terminal.Width(g.groups[from]))
			}
			line.WriteString(name + "  ")
		}
	}
	fmt.Fprintln(w, terminal.Paint(strings.TrimRight(line.String(), " "), terminal.Faint, g.colour))
}

func (g *grid) paint(c cell) string { return terminal.Paint(c.text, c.style, g.colour) }

// wrap breaks text between words so that no line is wider than width, unless a word is. It indents
// the lines after the first.
func wrap(text string, width int, indent string) string {
	var out strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		wide := terminal.Width(word)
		switch {
		case used == 0:
		case used+1+wide > width:
			out.WriteString("\n" + indent)
			used = len(indent)
		default:
			out.WriteString(" ")
			used++
		}
		out.WriteString(word)
		used += wide
	}
	return out.String()
}
