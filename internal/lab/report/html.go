package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

var (
	//go:embed web/page.css
	pageStyle string
	//go:embed web/page.js
	pageScript string
)

// pageData is the data for the script in the page.
type pageData struct {
	Charts  []Chart  `json:"charts"`
	Targets []string `json:"targets"`
}

// columnGroup is a heading above several columns.
type columnGroup struct {
	Name string
	Span int
}

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

// runCell is a median with the range of the rounds; Range is empty where rounds do not differ.
type runCell struct{ Median, Range string }

// chartSection is a heading with its charts.
type chartSection struct {
	Title  string
	Charts []chartView
}

// chartView is a chart with a table of its figures, for readers who cannot see the chart or want to
// copy the figures. Index is its position in pageData.
type chartView struct {
	Chart
	Index   int
	Figures tableView
}

// tableView is a table with the alignment of its columns.
type tableView struct {
	Table
	Right []bool
}

// WriteHTML writes the report as one self-contained page. It works from a file and offline, in
// light and dark mode, on large and small screens. Its charts show their figures under the pointer.
func (r *Report) WriteHTML(w io.Writer) error {
	if err := r.Validate(); err != nil {
		return err
	}
	script, err := echarts()
	if err != nil {
		return err
	}
	// json escapes < and >, so the data cannot end its script element.
	data, err := json.Marshal(pageData{Charts: r.charts(), Targets: r.targets()})
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	page := h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(g.Text(r.Title)),
			h.StyleEl(g.Raw(pageStyle)),
		),
		h.Body(
			h.Header(
				h.H1(g.Text(r.Title)),
				g.If(r.Question != "", h.P(h.Class("question"), g.Text(r.Question))),
				h.Dl(g.Map(r.setting(), func(f fact) g.Node { return h.Div(h.Dt(g.Text(f.Name)), h.Dd(g.Text(f.Value))) })),
				h.Pre(h.Class("command"), h.Code(g.Text(r.Command))),
			),
			h.Main(
				r.verdictSection(),
				r.runsSection(),
				h.NoScript(h.P(g.Text("The charts need JavaScript; their figures are under each."))),
				g.Map(r.sections(), chartSection.node),
				r.tablesSection(),
				r.notesSection(),
			),
			h.Script(h.Type("application/json"), h.ID("data"), g.Raw(string(data))),
			g.Map([]string{script, chartsScript, pageScript}, func(text string) g.Node { return h.Script(g.Raw(text)) }),
		),
	))
	if err := page.Render(w); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// nothing is an empty part of the page.
var nothing = g.Group(nil)

// verdictSection shows how many runs kept the SLA, and the findings.
func (r *Report) verdictSection() g.Node {
	passed, judged := 0, 0
	if r.SLA != nil {
		for i := range r.Runs {
			judged++
			if Pass(&r.Runs[i], r.SLA).Pass {
				passed++
			}
		}
	}
	if judged == 0 && len(r.Findings) == 0 {
		return nothing
	}
	section := g.Group{h.H2(g.Text("Verdict"))}
	if judged > 0 {
		section = append(section, h.P(h.Class("verdict"), badge(passed == judged, fmt.Sprintf("%d of %d pass", passed, judged)),
			g.Textf(" runs held against %s", r.SLA)))
	}
	if len(r.Findings) > 0 {
		section = append(section, h.Ul(h.Class("findings"), g.Map(r.Findings, func(f Finding) g.Node {
			word := "fails"
			if f.Holds {
				word = "holds"
			}
			return h.Li(badge(f.Holds, word), h.Span(g.Text(f.Claim+": "), h.B(g.Text(f.Seen))))
		})))
	}
	return h.Section(section)
}

func badge(good bool, text string) g.Node {
	class := "badge bad"
	if good {
		class = "badge good"
	}
	return h.Span(h.Class(class), g.Text(text))
}

// runsSection shows the table of runs.
func (r *Report) runsSection() g.Node {
	columns := r.columns()
	blocks := r.blocks(columns)
	if len(blocks) == 0 {
		return nothing
	}
	judged := r.SLA != nil
	return h.Section(
		h.H2(g.Text("Runs")),
		scroll("Table of runs", h.Table(h.Class("runs"),
			h.THead(
				h.Tr(h.Td(), g.If(judged, h.Td()), g.Map(groupsOf(columns), func(c columnGroup) g.Node {
					return h.Th(h.ColSpan(strconv.Itoa(c.Span)), h.Class("group"), g.Text(c.Name))
				})),
				h.Tr(left(h.Th, h.Scope("col"), g.Text("target")),
					g.Iff(judged, func() g.Node { return left(h.Th, h.Scope("col"), g.Text(r.SLA.String())) }),
					g.Map(columns, func(c column) g.Node { return h.Th(h.Scope("col"), g.Text(c.head)) })),
			),
			g.Map(blocks, func(b runBlock) g.Node {
				return h.TBody(
					g.If(b.Condition != "", h.Tr(h.Class("condition"), left(h.Th, h.ColSpan("99"), h.Scope("rowgroup"), h.Span(g.Text(b.Condition))))),
					g.Map(b.Rows, func(row runRow) g.Node { return row.node(judged) }),
				)
			}),
		)),
	)
}

// node renders a row of the table of runs, and one below it for what went wrong.
func (row runRow) node(judged bool) g.Node {
	rows := g.Group{h.Tr(
		left(h.Th, h.Scope("row"), g.Text(row.Target)),
		// Beside the target, where no narrow window clips it.
		g.Iff(judged, func() g.Node {
			if row.Verdict.Pass {
				return left(h.Td, badge(true, "PASS"))
			}
			return left(h.Td, badge(false, "FAIL"), h.Small(g.Text(row.Verdict.Why)))
		}),
		g.Map(row.Cells, func(c runCell) g.Node {
			return h.Td(g.Text(c.Median), g.If(c.Range != "", h.Small(g.Text(c.Range))))
		}),
	)}
	if len(row.Trouble) == 0 {
		return rows
	}
	class := "trouble"
	if row.Grave {
		class += " grave"
	}
	var what g.Group
	for i, t := range row.Trouble {
		if i > 0 {
			what = append(what, g.Text(", "))
		}
		what = append(what, h.B(g.Text(t)))
	}
	what = append(what, g.Text(" of "+row.Lookups))
	for _, e := range row.Errors {
		for line := range strings.Lines(e) {
			what = append(what, h.Br(), h.Code(g.Text(strings.TrimSuffix(line, "\n"))))
		}
	}
	return append(rows, h.Tr(h.Class(class), left(h.Td, h.ColSpan("99"), h.Span(what))))
}

// node renders a heading with its charts.
func (s chartSection) node() g.Node {
	class := "charts"
	if len(s.Charts) > 1 {
		class += " several"
	}
	return h.Section(h.H2(g.Text(s.Title)), h.Div(h.Class(class), g.Map(s.Charts, func(c chartView) g.Node {
		return h.Figure(
			h.FigCaption(g.Text(c.Title)),
			h.Div(h.Class("chart"), h.Data("chart", strconv.Itoa(c.Index))),
			h.Details(h.Summary(g.Text("Figures")), c.Figures.node()),
		)
	})))
}

func (r *Report) tablesSection() g.Node {
	if len(r.Tables) == 0 {
		return nothing
	}
	return h.Section(h.H2(g.Text("Tables")), g.Map(r.Tables, func(t Table) g.Node {
		return g.Group{h.H3(g.Text(t.Title)), tableView{Table: t, Right: t.right()}.node()}
	}))
}

func (r *Report) notesSection() g.Node {
	notes := r.allNotes()
	if len(notes) == 0 {
		return nothing
	}
	return h.Section(h.H2(g.Text("Notes")), h.Ul(g.Map(notes, func(n string) g.Node { return h.Li(g.Text(n)) })))
}

func (t tableView) node() g.Node {
	cell := func(element func(...g.Node) g.Node, i int, children ...g.Node) g.Node {
		if t.Right[i] {
			return element(children...)
		}
		return left(element, children...)
	}
	row := func(cells []string, of func(i int, text string) g.Node) g.Node {
		var nodes g.Group
		for i, text := range cells {
			nodes = append(nodes, of(i, text))
		}
		return h.Tr(nodes)
	}
	return scroll("Table", h.Table(
		h.THead(row(t.Columns, func(i int, text string) g.Node { return cell(h.Th, i, h.Scope("col"), g.Text(text)) })),
		h.TBody(g.Map(t.Rows, func(cells []string) g.Node {
			return row(cells, func(i int, text string) g.Node { return cell(h.Td, i, g.Text(text)) })
		})),
	))
}

// scroll wraps a table so that it scrolls sideways on a small screen, also by keyboard.
func scroll(label string, table g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.TabIndex("0"), h.Role("region"), h.Aria("label", label), table)
}

// left aligns an element of a table to the left.
func left(element func(...g.Node) g.Node, children ...g.Node) g.Node {
	return element(append([]g.Node{h.Class("left")}, children...)...)
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

// sections returns the standard charts followed by the report's own.
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

// figures returns the values of a chart as a table.
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
	// In a stack, the range is that of the sum and not of this value.
	if c.Kind != Stacked && i < len(s.Low) && s.Low[i] != nil && s.High[i] != nil {
		text += " (" + number(*s.Low[i]) + "–" + number(*s.High[i]) + ")"
	}
	return text
}
