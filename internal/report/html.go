package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

var (
	//go:embed web/page.html
	pageTemplate string
	//go:embed web/page.css
	pageStyle string
	//go:embed web/page.js
	pageScript string
)

// page is what the template shows.
type page struct {
	*Report
	Facts   []fact
	Groups  []columnGroup
	Columns []column
	Blocks  []runBlock
	// Passed of Judged runs kept the SLA.
	Passed, Judged int
	Sections       []chartSection
	TableViews     []tableView
	AllNotes       []string
	Data           pageData
	Style          template.CSS
	Scripts        []template.JS
}

// pageData is what the script in the page draws.
type pageData struct {
	Charts  []Chart  `json:"charts"`
	Targets []string `json:"targets"`
}

// columnGroup stands over some columns.
type columnGroup struct {
	Name string
	Span int
}

// Head of a column, for the template.
func (c column) Head() string { return c.head }

// runBlock is the runs of one condition.
type runBlock struct {
	Condition string
	Rows      []runRow
}

// runRow is a run in the table of runs.
type runRow struct {
	Target  string
	Cells   []runCell
	Verdict Verdict
	Trouble []string
	Grave   bool
	Lookups string
	Errors  []string
}

// runCell is a median with the range of the rounds, empty where it would add nothing.
type runCell struct{ Median, Range string }

// chartSection is charts under a heading, each with its place in the data.
type chartSection struct {
	Title  string
	Charts []chartView
}

// chartView is a chart with the table of its figures, for those who cannot see it
// or want to copy it.
type chartView struct {
	Chart
	Index   int
	Figures tableView
}

// tableView is a table whose columns know their alignment.
type tableView struct {
	Table
	Right []bool
}

var pageParsed = template.Must(template.New("page").Parse(pageTemplate))

// WriteHTML writes the report as one page that needs nothing else: it opens from a
// file, offline, by day and night, on a desk and on a phone. Its charts show their
// figures under the pointer.
func (r *Report) WriteHTML(w io.Writer) error {
	if err := r.Validate(); err != nil {
		return err
	}
	script, err := echarts()
	if err != nil {
		return err
	}
	columns := r.columns()
	p := page{
		Report: r, Facts: r.setting(), Groups: groupsOf(columns), Columns: columns, Blocks: r.blocks(columns),
		Sections: r.sections(), AllNotes: r.allNotes(),
		Data:    pageData{Charts: r.charts(), Targets: r.targets()},
		Style:   template.CSS(pageStyle),
		Scripts: []template.JS{template.JS(script), template.JS(chartsScript), template.JS(pageScript)},
	}
	for _, t := range r.Tables {
		p.TableViews = append(p.TableViews, tableView{Table: t, Right: t.right()})
	}
	if r.SLA != nil {
		for i := range r.Runs {
			p.Judged++
			if Pass(&r.Runs[i], r.SLA).Pass {
				p.Passed++
			}
		}
	}
	if err := pageParsed.Execute(w, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func groupsOf(columns []column) []columnGroup {
	var groups []columnGroup
	for i, c := range columns {
		if i > 0 && columns[i-1].group == c.group {
			groups[len(groups)-1].Span++
		} else {
			groups = append(groups, columnGroup{Name: c.group, Span: 1})
		}
	}
	return groups
}

func (r *Report) blocks(columns []column) []runBlock {
	var blocks []runBlock
	for _, group := range r.byCondition() {
		block := runBlock{Condition: group.Condition}
		for _, run := range group.Runs {
			block.Rows = append(block.Rows, r.row(run, columns))
		}
		blocks = append(blocks, block)
	}
	return blocks
}

func (r *Report) row(run *Run, columns []column) runRow {
	counts := run.Counts()
	row := runRow{Target: run.Target, Trouble: trouble(counts), Grave: grave(counts),
		Lookups: plural(counts.Lookups, "lookup", "lookups"), Errors: sortedErrors(counts.Errors)}
	if r.SLA != nil {
		row.Verdict = Pass(run, r.SLA)
	}
	for _, c := range columns {
		merged := run.Merge(c.figure)
		shown := runCell{Median: medianText(merged)}
		if merged.Rounds > 1 && merged.Min != merged.Max {
			shown.Range = number(merged.Min) + "–" + number(merged.Max)
		}
		row.Cells = append(row.Cells, shown)
	}
	return row
}

// sections are the standard charts and then the report's own.
func (r *Report) sections() []chartSection {
	sections := r.standard()
	if len(r.Charts) > 0 {
		sections = append(sections, section{Title: "Further charts", Charts: r.Charts})
	}
	var views []chartSection
	index := 0
	for _, s := range sections {
		view := chartSection{Title: s.Title}
		for _, c := range s.Charts {
			view.Charts = append(view.Charts, chartView{Chart: c, Index: index, Figures: c.figures()})
			index++
		}
		views = append(views, view)
	}
	return views
}

// figures are the values of a chart as a table.
func (c *Chart) figures() tableView {
	t := Table{Columns: []string{c.XName}}
	for _, s := range c.Series {
		t.Columns = append(t.Columns, s.Name)
	}
	for i, x := range c.X {
		row := []string{x}
		for _, s := range c.Series {
			row = append(row, c.figure(&s, i))
		}
		t.Rows = append(t.Rows, row)
	}
	return tableView{Table: t, Right: t.right()}
}

func (c *Chart) figure(s *Series, i int) string {
	if s.Values[i] == nil {
		return "–"
	}
	text := number(*s.Values[i])
	// The range in a stack is that of the sum, not of the value beside it.
	if c.Kind != Stacked && i < len(s.Low) && s.Low[i] != nil && s.High[i] != nil {
		text += " (" + number(*s.Low[i]) + "–" + number(*s.High[i]) + ")"
	}
	return text
}
