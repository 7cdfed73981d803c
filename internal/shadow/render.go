package shadow

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// JSON writes the report as one JSON object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Verdict)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tDRIVER ("+string(r.Baseline)+")\tPROXY")
	for _, l := range r.lines() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Name, l.Driver, l.Proxy)
	}
	_ = t.Flush() // into memory
	for _, note := range r.notes() {
		fmt.Fprintf(&b, "%s\n", note)
	}
	fmt.Fprintln(&b)
	t = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tLOOKUPS\tKEYS\tCOMPARED\tDIFFERENT\tCHANGED\tUNSETTLED")
	for _, s := range r.Tables {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Lookups, s.Keys, s.Compared, s.DifferentKeys, s.ChangedKeys, s.UnsettledKeys)
	}
	_ = t.Flush()
	for _, reason := range r.Reasons {
		fmt.Fprintf(&b, "\nrefused by the %s: %s: %s, first at %d\n", reason.Side, reason.Text, plural(reason.Lookups, "lookup", "lookups"), reason.First)
	}
	if len(r.Differences) > 0 {
		fmt.Fprintf(&b, "\n%s\n", r.ListTitle())
	}
	for _, d := range r.Differences {
		place := d.Table + " " + d.Key
		if d.Row != "" {
			place += " row " + d.Row
		}
		if d.Column != "" {
			place += " " + d.Column
		}
		fmt.Fprintf(&b, "%s, lookup %d: %s\n  driver %s\n  proxy  %s\n", place, d.Lookup, d.Kind, orNone(d.Driver), orNone(d.Proxy))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

//go:embed report.html
var pages embed.FS

var page = template.Must(template.New("report.html").Funcs(template.FuncMap{"none": orNone}).ParseFS(pages, "report.html"))

// HTML writes the report as one page that needs no other file.
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r) }

// Line is one line of the table that compares both sides.
type Line struct{ Name, Driver, Proxy string }

// Lines returns the lines for the page.
func (r *Report) Lines() []Line { return r.lines() }

// Notes returns sentences that qualify the numbers.
func (r *Report) Notes() []string { return r.notes() }

func (r *Report) lines() []Line {
	d, p := &r.Driver, &r.Proxied
	lines := []Line{
		{"p50", millis(d.P50), millis(p.P50)}, {"p95", millis(d.P95), millis(p.P95)}, {"p99", millis(d.P99), millis(p.P99)},
		{"greatest", millis(d.Max), millis(p.Max)},
		{"unanswered keys", unanswered(d), unanswered(p)},
		{"statements, sub-queries", count(d.Statements), count(p.Statements)},
	}
	if d.CPUMillis != nil && p.CPUMillis != nil {
		lines = append(lines, Line{"Cassandra's CPU per lookup", millis(d.CPUMillis), millis(p.CPUMillis)})
	}
	return lines
}

func (r *Report) notes() []string {
	var notes []string
	if r.Driver.Lookups < 100 {
		notes = append(notes, plural(r.Driver.Lookups, "lookup was", "lookups were")+" timed: p95 needs 20, p99 needs 100.")
	}
	if r.WarmUp > 0 {
		notes = append(notes, fmt.Sprintf("The first %d lookups were compared but not timed: nodes prepare statements meanwhile.", r.WarmUp))
	}
	if r.CPU != "" {
		notes = append(notes, "CPU of Cassandra not measured: "+r.CPU+".")
	}
	if r.ChangedKeys > 0 {
		notes = append(notes, plural(r.ChangedKeys, "key was", "keys were")+" changed meanwhile: it differed once and then no longer. This is no difference.")
	}
	return notes
}

// Bar is a line of the chart of latencies.
type Bar struct {
	Name, Value string
	// Side is driver or proxy, and Percent the length of the bar.
	Side    string
	Percent float64
}

// Bars returns the latencies of both sides; the longest bar has 100 percent.
func (r *Report) Bars() []Bar {
	longest := 0.0
	var bars []Bar
	for _, l := range []struct {
		name          string
		driver, proxy *float64
	}{{"p50", r.Driver.P50, r.Proxied.P50}, {"p95", r.Driver.P95, r.Proxied.P95}, {"p99", r.Driver.P99, r.Proxied.P99}} {
		for i, v := range []*float64{l.driver, l.proxy} {
			if v != nil {
				longest = max(longest, *v)
				bars = append(bars, Bar{l.name + " " + Side(i).String(), millis(v), Side(i).String(), *v})
			}
		}
	}
	for i := range bars {
		if longest > 0 {
			bars[i].Percent *= 100 / longest
		}
	}
	return bars
}

// ListTitle returns how many differences there are, and how many of them are listed.
func (r *Report) ListTitle() string {
	total, kinds := int64(0), []string{}
	for _, k := range Kinds {
		if n := r.Kinds[k]; n > 0 {
			total += n
			kinds = append(kinds, fmt.Sprintf("%d %s", n, k))
		}
	}
	title := fmt.Sprintf("%s (%s)", plural(total, "difference", "differences"), strings.Join(kinds, ", "))
	if int(total) > len(r.Differences) {
		title += fmt.Sprintf(", of which %d are listed", len(r.Differences))
	}
	return title
}

// Took returns how long the comparison took.
func (r *Report) Took() string { return r.Ended.Sub(r.Started).Round(time.Millisecond).String() }

func unanswered(s *SideReport) string {
	parts := []string{}
	for _, status := range s.statuses() {
		parts = append(parts, fmt.Sprintf("%d %s", s.Unanswered[status], status))
	}
	if len(parts) == 0 {
		return "0"
	}
	return count(s.unanswered()) + " (" + strings.Join(parts, ", ") + ")"
}

// millis returns a time in milliseconds as text; a dash for nil.
func millis(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f ms", *v)
}

func orNone(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func plural(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}
