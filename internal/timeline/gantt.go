package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

// The widths of the columns beside the bars, in characters.
const (
	keysWidth    = 4
	endWidth     = 6
	outcomeWidth = len("cancelled")
	gaps         = 2 * 4
	// roomyBars is how wide bars must be for addresses to be shown as well.
	roomyBars = 48
)

// The vertical marks of the chart, and the characters of a bar.
const (
	hedgeMark    = '┊'
	softMark     = '╎'
	deadlineMark = '┃'
	onTime       = '█'
	pastHedge    = '▒'
)

// chart is the scale that all bars share.
type chart struct {
	*drawing
	bars  int
	label int
	// span is the time that the bars cover.
	span time.Duration
	// roomy shows the address of each host after its letter.
	roomy bool
	used  map[rune]bool
}

// row is one sub-query in the order of the drawing.
type row struct {
	*Attempt
	depth int
}

// subQueries draws every sub-query. One that was sent because another was late or
// failed is drawn below that one.
func (d *drawing) subQueries() {
	rows := d.rows()
	c := &chart{drawing: d, used: make(map[rune]bool)}
	c.roomy = true
	if c.measure(rows); c.bars < roomyBars {
		c.roomy = false
		c.measure(rows)
	}
	c.scale()
	d.line("")
	d.line(d.heading("SUB-QUERIES") + d.faint(fmt.Sprintf("%s  %*s  %s  %*s  %s", pad("", c.label-len("SUB-QUERIES")),
		keysWidth, "KEYS", pad(c.ticks(), c.bars), endWidth, "END ms", "OUTCOME")))
	for _, r := range rows {
		c.row(&r)
	}
	c.legend()
}

// rows orders the attempts: each below the one that caused it.
func (d *drawing) rows() []row {
	attempts := d.lookup.Attempts
	children := make(map[int][]int)
	for i := range attempts {
		children[d.cause(i)] = append(children[d.cause(i)], i)
	}
	var out []row
	var visit func(i, depth int)
	visit = func(i, depth int) {
		out = append(out, row{&attempts[i], depth})
		for _, child := range children[i] {
			visit(child, depth+1)
		}
	}
	for _, i := range children[-1] {
		visit(i, 0)
	}
	return out
}

// cause returns the index of the latest earlier attempt with a key of this one; -1
// for none.
func (d *drawing) cause(i int) int {
	a := &d.lookup.Attempts[i]
	if a.Kind == "first" {
		return -1
	}
	for j := i - 1; j >= 0; j-- {
		if slices.ContainsFunc(d.lookup.Attempts[j].Keys, func(k int) bool { return slices.Contains(a.Keys, k) }) {
			return j
		}
	}
	return -1
}

// measure gives the bars the width that the labels leave.
func (c *chart) measure(rows []row) {
	c.label = len("SUB-QUERIES")
	for i := range rows {
		c.label = max(c.label, terminal.Width(c.name(&rows[i])))
	}
	c.bars = max(c.width-c.label-keysWidth-endWidth-outcomeWidth-gaps, 10)
}

// name returns the label of a sub-query.
func (c *chart) name(r *row) string {
	branch := ""
	if r.depth > 0 {
		branch = strings.Repeat("  ", r.depth-1) + "└ "
	}
	if r.Host == "" {
		return branch + r.Kind
	}
	host := c.letters[r.Host]
	if c.roomy {
		host += " " + r.Host
	}
	return branch + host + " " + r.Kind
}

// scale chooses a span that contains all attempts. It also contains a deadline and
// the first hedge delay, unless they are so late that they would squeeze the bars.
func (c *chart) scale() {
	c.span = c.lookup.Elapsed
	for i := range c.lookup.Attempts {
		c.span = max(c.span, c.lookup.Attempts[i].End)
	}
	c.span = max(c.span, time.Microsecond)
	near := c.span + c.span/4
	for _, at := range []time.Duration{c.lookup.Deadline, c.lookup.SoftDeadline, c.lookup.firstHedge()} {
		if at <= near {
			c.span = max(c.span, at)
		}
	}
}

// firstHedge returns when the first sub-query with a hedge delay is hedged; 0 if
// none has.
func (l *Lookup) firstHedge() time.Duration {
	for i := range l.Attempts {
		if l.Attempts[i].HedgeAfter > 0 {
			return l.Attempts[i].Start + l.Attempts[i].HedgeAfter
		}
	}
	return 0
}

// at returns the position of a moment, in columns with a fraction.
func (c *chart) at(t time.Duration) float64 {
	return float64(c.bars) * float64(t) / float64(c.span)
}

// column returns the column that contains a moment; -1 beyond the scale.
func (c *chart) column(t time.Duration) int {
	if t > c.span {
		return -1
	}
	return min(int(c.at(t)), c.bars-1)
}

// ticks labels the scale at round times.
func (c *chart) ticks() string {
	step := niceStep(c.span, max(c.bars/6, 1))
	line := []rune(strings.Repeat(" ", c.bars))
	free := 0
	for t := time.Duration(0); t <= c.span; t += step {
		label := []rune("╵" + millis(t))
		if from := c.column(t); from >= free && from+len(label) <= c.bars {
			copy(line[from:], label)
			free = from + len(label) + 1
		}
	}
	return string(line)
}

// niceStep returns the smallest step of 1, 2, 5, 10, 20 µs and so on that divides
// span into at most parts parts.
func niceStep(span time.Duration, parts int) time.Duration {
	for step := time.Microsecond; ; step *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if span/(step*n) < time.Duration(parts) {
				return step * n
			}
		}
	}
}

// millis formats a time in milliseconds, with fewer decimals the longer it is.
func millis(t time.Duration) string {
	ms := float64(t) / float64(time.Millisecond)
	switch {
	case ms == math.Trunc(ms):
		return fmt.Sprintf("%.0f", ms)
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", ms), ".0")
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", ms), "0"), ".")
}

// row draws one sub-query, with remarks below it where one word is not enough.
func (c *chart) row(r *row) {
	colour := outcomeColour(r.Outcome)
	c.line(fmt.Sprintf("%s  %*d  %s  %*s  %s", pad(c.name(r), c.label), keysWidth, len(r.Keys), c.bar(r, colour),
		endWidth, fmt.Sprintf("%.2f", float64(r.End)/float64(time.Millisecond)), c.paint(r.Outcome, colour)))
	for _, note := range []string{c.shared(r), c.failure(r), c.notHedged(r)} {
		if note != "" {
			c.line(fmt.Sprintf("%s  %*s  %s", pad("", c.label), keysWidth, "", c.faint(note)))
		}
	}
}

func (c *chart) shared(r *row) string {
	if r.StatementKeys == 0 {
		return ""
	}
	return fmt.Sprintf("↑ in a shared statement of %d keys", r.StatementKeys)
}

func (c *chart) failure(r *row) string {
	if r.Err == "" {
		return ""
	}
	return "↑ failed: " + r.Err
}

// notHedged explains NotHedged in a sentence.
func (c *chart) notHedged(r *row) string {
	if r.NotHedged == "" {
		return ""
	}
	why, known := map[string]string{
		"budget":   "the budget is spent",
		"load":     "too much is late",
		"deadline": "too little time is left",
		"replicas": "no other replica",
	}[r.NotHedged]
	if !known {
		why = r.NotHedged
	}
	return "↑ late, not hedged: " + why
}

func outcomeColour(outcome string) terminal.Style {
	switch outcome {
	case "won":
		return terminal.Green
	case "failed":
		return terminal.Red
	case "pending":
		return terminal.Yellow
	case "cancelled", "lost":
		return terminal.Faint
	}
	return ""
}

// bar draws the time of one sub-query, between the marks.
func (c *chart) bar(r *row, colour terminal.Style) string {
	cells := make([]rune, c.bars)
	for i := range cells {
		cells[i] = ' '
	}
	mark := func(t time.Duration, with rune) {
		if i := c.column(t); t > 0 && i >= 0 {
			cells[i] = with
			c.used[with] = true
		}
	}
	mark(c.lookup.Deadline, deadlineMark)
	mark(c.lookup.SoftDeadline, softMark)
	late := time.Duration(math.MaxInt64)
	if r.HedgeAfter > 0 {
		late = r.Start + r.HedgeAfter
		mark(late, hedgeMark)
	}
	from := c.column(r.Start)
	to := max(from+1, min(int(math.Ceil(c.at(r.End))), c.bars))
	for i := from; i < to; i++ {
		cells[i] = onTime
		// A cell is late if the delay has passed when the cell begins.
		if late <= r.End && i > int(c.at(late)) {
			cells[i] = pastHedge
			c.used[pastHedge] = true
		}
	}
	if r.End >= late {
		c.used[hedgeMark] = true
		if i := c.column(late); i > from && i < to {
			cells[i] = hedgeMark
		}
	}
	c.finish(cells, to-1, r)
	return string(cells[:from]) + c.paint(string(cells[from:to]), colour) + string(cells[to:])
}

// finish draws the end of a bar, its last cell, according to the outcome.
func (c *chart) finish(cells []rune, last int, r *row) {
	switch r.Outcome {
	case "failed":
		cells[last] = '✗'
	case "cancelled":
		cells[last] = '┤'
	case "pending":
		cells[last] = '▸'
	default:
		const eighths = "▏▎▍▌▋▊▉█"
		// The part of its last cell that the sub-query fills.
		if part := c.at(r.End) - float64(last); cells[last] == onTime && part > 0 && part < 1 {
			cells[last] = []rune(eighths)[min(int(part*8), 7)]
		}
	}
}

// legend explains the marks that were used, and names those beyond the scale.
func (c *chart) legend() {
	l := c.lookup
	parts := []string{}
	if c.used[pastHedge] {
		parts = append(parts, "▒ late")
	}
	if hedge := l.firstHedge(); hedge > 0 {
		parts = append(parts, c.named(hedgeMark, "hedge", hedge))
	}
	if l.SoftDeadline > 0 {
		parts = append(parts, c.named(softMark, "soft deadline", l.SoftDeadline))
	}
	if l.Deadline > 0 {
		parts = append(parts, c.named(deadlineMark, "deadline", l.Deadline))
	}
	for _, end := range [...]struct{ outcome, sign string }{{"failed", "✗ failed"}, {"cancelled", "┤ cancelled"}, {"pending", "▸ no answer by the end"}} {
		if slices.ContainsFunc(l.Attempts, func(a Attempt) bool { return a.Outcome == end.outcome }) {
			parts = append(parts, end.sign)
		}
	}
	line := ""
	for _, p := range parts {
		if line != "" && terminal.Width(line)+3+terminal.Width(p) > c.width {
			c.line(c.faint(line))
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += p
	}
	if line != "" {
		c.line(c.faint(line))
	}
}

// named returns a mark with its name and time. Beyond the scale there is only the
// time.
func (c *chart) named(mark rune, name string, t time.Duration) string {
	if c.used[mark] {
		return fmt.Sprintf("%c %s %s ms", mark, name, millis(t))
	}
	return fmt.Sprintf("%s %s ms ⇥", name, millis(t))
}
