package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

const (
	// textWidth is the number of columns of the text. The report's own tables may be wider.
	textWidth = 120
	// targetWidth is the width to which the names of targets are cut.
	targetWidth = 13
)

// TextOptions says how a report is shown in a terminal.
type TextOptions struct {
	// Colour uses ANSI colours.
	Colour bool
}

// WriteText writes the report for a terminal of 120 columns: a line for each run, followed by the
// problems of those that have any.
func (r *Report) WriteText(w io.Writer, options TextOptions) error {
	if err := r.Validate(); err != nil {
		return err
	}
	buffered := bufio.NewWriter(w)
	t := text{w: buffered, r: r, colour: options.Colour}
	t.header()
	t.runs()
	t.noise()
	for i := range r.Tables {
		t.table(&r.Tables[i])
	}
	t.findings()
	t.notes()
	return buffered.Flush()
}

// text writes the sections of a report; bufio keeps the first error.
type text struct {
	w      io.Writer
	r      *Report
	colour bool
}

func (t *text) title(s string) {
	fmt.Fprintf(t.w, "\n%s\n", terminal.Paint(s, terminal.Bold, t.colour))
}

func (t *text) header() {
	fmt.Fprintln(t.w, terminal.Paint(wrap(t.r.Title, textWidth, ""), terminal.Bold, t.colour))
	if t.r.Question != "" {
		fmt.Fprintln(t.w, wrap(t.r.Question, textWidth, ""))
	}
	fmt.Fprintln(t.w)
	for _, f := range append(t.r.setting(), fact{"Command", t.r.Command}) {
		fmt.Fprintf(t.w, "%-8s %s\n", f.Name, wrap(f.Value, textWidth-9, strings.Repeat(" ", 9)))
	}
}

func (t *text) runs() {
	columns := t.r.columns()
	for _, group := range t.r.byCondition() {
		t.title(group.Condition)
		g := grid{colour: t.colour, groups: []string{""}}
		if t.r.SLA != nil {
			g.groups = append(g.groups, "")
		}
		for _, c := range columns {
			g.groups = append(g.groups, c.group)
		}
		g.add(t.heads(columns)...)
		for _, run := range group.Runs {
			g.add(t.run(run, columns)...)
		}
		g.write(t.w)
		for _, run := range group.Runs {
			t.trouble(run)
		}
	}
}

func (t *text) heads(columns []column) []cell {
	row := []cell{{text: "target", style: terminal.Faint}}
	if t.r.SLA != nil {
		row = append(row, cell{text: "SLA", style: terminal.Faint})
	}
	for _, c := range columns {
		row = append(row, cell{text: c.head, style: terminal.Faint})
	}
	return row
}

func (t *text) run(run *Run, columns []column) []cell {
	row := []cell{{text: terminal.Fit(run.Target, targetWidth), left: true}}
	switch { // Beside the target, where no narrow window clips it.
	case t.r.SLA == nil:
	case Pass(run, t.r.SLA).Pass:
		row = append(row, cell{text: "PASS", style: terminal.BoldGreen})
	default:
		row = append(row, cell{text: "FAIL", style: terminal.BoldRed})
	}
	for _, c := range columns {
		row = append(row, cell{text: medianText(run.Merge(c.figure))})
	}
	return row
}

// trouble writes the counts of a run that ought to be zero and are not, and its errors.
func (t *text) trouble(run *Run) {
	counts := run.Counts()
	found := trouble(counts)
	if len(found) == 0 {
		return
	}
	var s terminal.Style
	if grave(counts) {
		s = terminal.BoldRed
	}
	line := fmt.Sprintf("!! %s: %s of %s", run.Target, strings.Join(found, ", "), plural(counts.Lookups, "lookup", "lookups"))
	fmt.Fprintln(t.w, terminal.Paint(wrap(line, textWidth, "   "), s, t.colour))
	for _, e := range sortedErrors(counts.Errors) {
		indent := "   "
		for line := range strings.Lines(e) {
			fmt.Fprintln(t.w, indent+wrap(line, textWidth-len(indent), "     "))
			indent = "     "
		}
	}
}

// noise writes the range of the rounds for the noisy figures.
func (t *text) noise() {
	if t.r.rounds() < 2 {
		return
	}
	t.title(fmt.Sprintf("The noise: median of %d rounds (least–greatest)", t.r.rounds()))
	g := grid{colour: t.colour}
	head := []cell{{text: "run", style: terminal.Faint}}
	noisy := slices.DeleteFunc(t.r.columns(), func(c column) bool { return !c.noisy })
	for _, c := range noisy {
		head = append(head, cell{text: c.name, style: terminal.Faint})
	}
	g.add(head...)
	for _, group := range t.r.byCondition() {
		for _, run := range group.Runs {
			row := []cell{{text: terminal.Fit(run.Name(), 40), left: true}}
			for _, c := range noisy {
				row = append(row, cell{text: run.Merge(c.figure).String()})
			}
			g.add(row...)
		}
	}
	g.write(t.w)
}

func (t *text) table(table *Table) {
	t.title(table.Title)
	g := grid{colour: t.colour}
	var head []cell
	for _, c := range table.Columns {
		head = append(head, cell{text: c, style: terminal.Faint})
	}
	g.add(head...)
	for _, row := range table.Rows {
		var cells []cell
		for _, c := range row {
			cells = append(cells, cell{text: c})
		}
		g.add(cells...)
	}
	g.write(t.w)
}

func (t *text) findings() {
	if len(t.r.Findings) == 0 {
		return
	}
	t.title("Findings")
	for _, f := range t.r.Findings {
		verdict := terminal.Paint("HOLDS", terminal.BoldGreen, t.colour)
		if !f.Holds {
			verdict = terminal.Paint("FAILS", terminal.BoldRed, t.colour)
		}
		fmt.Fprintf(t.w, "%s  %s\n", verdict, wrap(f.Claim+": "+f.Seen, textWidth-7, strings.Repeat(" ", 7)))
	}
}

func (t *text) notes() {
	notes := t.r.allNotes()
	if len(notes) == 0 {
		return
	}
	t.title("Notes")
	for _, note := range notes {
		fmt.Fprintln(t.w, "- "+wrap(note, textWidth-2, "  "))
	}
}
