package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the report as a section of a README, under a heading of the second level. It
// shows the images in order, by their File; WriteCharts draws them.
func (r *Report) WriteMarkdown(w io.Writer, images []Image) error {
	if err := r.Validate(); err != nil {
		return err
	}
	buffered := bufio.NewWriter(w)
	m := markdown{w: buffered, r: r}
	m.header()
	m.runs()
	m.troubles()
	m.findings()
	for _, image := range images {
		fmt.Fprintf(m.w, "![%s](%s)\n\n", strings.NewReplacer("[", "(", "]", ")").Replace(image.Title), image.File)
	}
	for i := range r.Tables {
		m.table(&r.Tables[i])
	}
	m.notes()
	return buffered.Flush()
}

// markdown writes the sections of a report; bufio keeps the first error.
type markdown struct {
	w io.Writer
	r *Report
}

func (m *markdown) header() {
	fmt.Fprintf(m.w, "## %s\n\n", m.r.Title)
	if m.r.Question != "" {
		fmt.Fprintf(m.w, "%s\n\n", m.r.Question)
	}
	fmt.Fprintf(m.w, "```\n%s\n```\n\n", m.r.Command)
	var facts []string
	for _, f := range m.r.setting() {
		facts = append(facts, f.Name+": "+f.Value)
	}
	fmt.Fprintf(m.w, "%s.\n\n", strings.Join(facts, ". "))
}

func (m *markdown) runs() {
	if len(m.r.Runs) == 0 {
		return
	}
	columns := m.r.columns()
	conditions := len(m.r.byCondition()) > 1 || m.r.Runs[0].Condition != ""
	head, align := []string{"target"}, []string{"---"}
	if conditions {
		head, align = append(head, "condition"), append(align, "---")
	}
	for _, c := range columns {
		head, align = append(head, c.name), append(align, "---:")
	}
	if m.r.SLA != nil {
		head, align = append(head, m.r.SLA.String()), append(align, "---")
	}
	m.row(head)
	m.row(align)
	for _, group := range m.r.byCondition() {
		for _, run := range group.Runs {
			row := []string{run.Target}
			if conditions {
				row = append(row, run.Condition)
			}
			m.row(append(row, m.figures(run, columns)...))
		}
	}
	fmt.Fprintln(m.w)
}

// figures returns the cells of a run, with the verdict if there is an SLA.
func (m *markdown) figures(run *Run, columns []column) []string {
	var cells []string
	for _, c := range columns {
		if merged := run.Merge(c.figure); c.noisy {
			cells = append(cells, merged.String())
		} else {
			cells = append(cells, medianText(merged))
		}
	}
	switch {
	case m.r.SLA == nil:
	case Pass(run, m.r.SLA).Pass:
		cells = append(cells, "PASS")
	default:
		cells = append(cells, "**FAIL**")
	}
	return cells
}

func (m *markdown) row(cells []string) {
	for _, c := range cells {
		fmt.Fprintf(m.w, "| %s ", strings.ReplaceAll(c, "|", `\|`))
	}
	fmt.Fprintln(m.w, "|")
}

func (m *markdown) troubles() {
	lines := 0
	for _, group := range m.r.byCondition() {
		for _, run := range group.Runs {
			counts := run.Counts()
			if found := trouble(counts); len(found) > 0 {
				fmt.Fprintf(m.w, "- **%s**: %s of %s\n", run.Name(), strings.Join(found, ", "),
					plural(counts.Lookups, "lookup", "lookups"))
				lines++
			}
		}
	}
	if lines > 0 {
		fmt.Fprintln(m.w)
	}
}

func (m *markdown) table(t *Table) {
	fmt.Fprintf(m.w, "**%s**\n\n", t.Title)
	m.row(t.Columns)
	right := t.right()
	align := make([]string, len(t.Columns))
	for i := range align {
		align[i] = "---"
		if right[i] {
			align[i] = "---:"
		}
	}
	m.row(align)
	for _, row := range t.Rows {
		m.row(row)
	}
	fmt.Fprintln(m.w)
}

// right reports for each column whether all its cells are numeric.
func (t *Table) right() []bool {
	right := make([]bool, len(t.Columns))
	for i := range right {
		right[i] = true
		for _, row := range t.Rows {
			right[i] = right[i] && numeric(row[i])
		}
	}
	return right
}

func (m *markdown) findings() {
	if len(m.r.Findings) == 0 {
		return
	}
	m.row([]string{"finding", "seen", "holds"})
	m.row([]string{"---", "---", "---"})
	for _, f := range m.r.Findings {
		holds := "yes"
		if !f.Holds {
			holds = "**no**"
		}
		m.row([]string{f.Claim, f.Seen, holds})
	}
	fmt.Fprintln(m.w)
}

func (m *markdown) notes() {
	for _, note := range m.r.allNotes() {
		fmt.Fprintf(m.w, "- %s\n", note)
	}
}
