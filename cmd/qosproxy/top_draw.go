package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/qosproxy/qosproxy/internal/status"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// plainWidth is the width of text that is not written to a terminal.
const plainWidth = 110

// rateSpan is the time over which rates are measured.
const rateSpan = 5 * time.Second

// topHistory is the snapshots of the last seconds.
type topHistory struct {
	seen []*status.Snapshot // the oldest first
	// lost is why the last request to the proxy failed; nil if it did not.
	lost error
}

// add adds a snapshot, and removes those that are too old for a rate.
func (h *topHistory) add(s *status.Snapshot) {
	if n := len(h.seen); n > 0 && !h.seen[n-1].Started.Equal(s.Started) {
		h.seen = nil // another process
	}
	h.seen = append(h.seen, s)
	for len(h.seen) > 2 && s.Time.Sub(h.seen[1].Time) >= rateSpan {
		h.seen = h.seen[1:]
	}
}

// rate returns the increase of a count per second; NaN if it is not known. A count that a
// snapshot does not have is 0 there.
func (h *topHistory) rate(count func(*status.Snapshot) int64) float64 {
	if len(h.seen) < 2 {
		return math.NaN()
	}
	first, last := h.seen[0], h.seen[len(h.seen)-1]
	seconds := last.Time.Sub(first.Time).Seconds()
	grown := count(last) - count(first)
	if seconds <= 0 || grown < 0 {
		return math.NaN()
	}
	return float64(grown) / seconds
}

// rates returns the rates of lookups, keys and failed lookups.
func (h *topHistory) rates(of func(*status.Snapshot) status.Count) (lookups, keys, failed float64) {
	return h.rate(func(s *status.Snapshot) int64 { return of(s).Lookups }),
		h.rate(func(s *status.Snapshot) int64 { return of(s).Keys }),
		h.rate(func(s *status.Snapshot) int64 { return of(s).Failed })
}

func tableCount(name string) func(*status.Snapshot) status.Count {
	return func(s *status.Snapshot) status.Count {
		for i := range s.Tables {
			if s.Tables[i].Name == name {
				return s.Tables[i].Count
			}
		}
		return status.Count{}
	}
}

func clientCount(name string) func(*status.Snapshot) status.Count {
	return func(s *status.Snapshot) status.Count {
		for i := range s.Clients {
			if s.Clients[i].Name == name {
				return s.Clients[i].Count
			}
		}
		return status.Count{}
	}
}

// hostRate returns the rate of a count of one host.
func (h *topHistory) hostRate(address string, count func(*status.Host) int64) float64 {
	return h.rate(func(s *status.Snapshot) int64 {
		for i := range s.Hosts {
			if s.Hosts[i].Address == address {
				return count(&s.Hosts[i])
			}
		}
		return 0
	})
}

// screen collects the lines of one drawing.
type screen struct {
	*topHistory
	s      *status.Snapshot
	colour bool
	lines  []string
}

// draw returns lines of at most width columns. Unless height is 0 there are at most height
// lines; the last one then says how many were left out.
func (h *topHistory) draw(width, height int, colour bool) []string {
	d := &screen{topHistory: h, colour: colour}
	if h.lost != nil {
		d.line(d.paint(terminal.Red, "✕ "+clean(h.lost.Error())))
	}
	if len(h.seen) > 0 {
		d.s = h.seen[len(h.seen)-1]
		if h.lost != nil {
			d.line(d.paint(terminal.Red, "What follows is of "+d.s.Time.Local().Format(time.TimeOnly)+"."))
		}
		d.header()
		d.tables()
		d.hosts()
		d.clients()
		d.trouble()
	}
	if height > 0 && len(d.lines) > height {
		left := len(d.lines) - height + 1
		d.lines = append(d.lines[:height-1], d.paint(terminal.Faint, fmt.Sprintf("… %d more lines; make the window higher, or use --once", left)))
	}
	for i, line := range d.lines {
		d.lines[i] = terminal.Fit(line, width)
	}
	return d.lines
}

func (d *screen) line(text string) { d.lines = append(d.lines, text) }

// paint colours a text. The result must not be passed to clean, which would break the
// colours.
func (d *screen) paint(style terminal.Style, text string) string {
	return terminal.Paint(text, style, d.colour)
}

func (d *screen) header() {
	s := d.s
	ready := d.paint(terminal.Green, "● ready")
	if !s.Ready {
		ready = d.paint(terminal.Red, "✕ not ready: "+clean(s.Reason))
	}
	d.line(d.paint(terminal.Bold, "qosproxy") + " " + clean(s.Version) + "  " + ready + "  up " + s.Time.Sub(s.Started).Round(time.Second).String())
	lookups, keys, failed := d.rates(func(s *status.Snapshot) status.Count { return s.Total })
	text := fmt.Sprintf("%s lookups/s  %s keys/s  %s failed/s", figure(lookups), figure(keys), figure(failed))
	if a := s.Admission; a != nil && a.Enabled {
		text += fmt.Sprintf("  %d of %d keys in-flight", a.InflightKeys, a.LimitKeys)
	}
	d.line(text)
	if s.Config.Error != "" {
		d.line(d.paint(terminal.Yellow, "The configuration files are not in use as they are: "+clean(s.Config.Error)))
	}
	if len(s.Config.NeedRestart) > 0 {
		d.line(d.paint(terminal.Yellow, "These keys take effect after a restart: "+clean(strings.Join(s.Config.NeedRestart, ", "))))
	}
}

// mostRows is how many tables, clients and errors are shown. All hosts are shown, the worst
// first.
const mostRows = 10

func (d *screen) tables() {
	tables := slices.Clone(d.s.Tables)
	slices.SortStableFunc(tables, func(a, b status.Table) int {
		x, _, _ := d.rates(tableCount(a.Name))
		y, _, _ := d.rates(tableCount(b.Name))
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Lookups, a.Lookups))
	})
	g := d.grid("TABLE", "LOOKUPS|/s", "KEYS|/s", "FAILED|/s", "P50|ms", "P95|ms", "P99|ms", "P99.9|ms", "SLA|ms", "BURN|5m", "GIVES UP")
	for _, t := range tables[:min(len(tables), mostRows)] {
		lookups, keys, failed := d.rates(tableCount(t.Name))
		row := []cellText{{text: clean(t.Name)}, {text: figure(lookups)}, {text: figure(keys)}, {text: figure(failed), colour: when(failed > 0, terminal.Yellow)}}
		if p := t.SLO; p == nil {
			row = append(row, make([]cellText, 6)...)
		} else {
			w := p.Now
			for i, v := range []float64{w.P50MS, w.P95MS, w.P99MS, w.P999MS} {
				// Percentiles above that of the SLO cannot violate it.
				covered := []float64{50, 95, 99, 99.9}[i] <= p.Percentile
				if w.Count == 0 {
					v = math.NaN()
				}
				row = append(row, cellText{text: figure(v), colour: when(covered && v > p.TargetMS, terminal.Red)})
			}
			row = append(row, cellText{text: fmt.Sprintf("%g", p.TargetMS)}, cellText{text: figure(p.FiveMinutes.BurnRate), colour: when(p.FiveMinutes.BurnRate > 1, terminal.Red)})
		}
		g.add(append(row, cellText{text: clean(t.GivesUp), colour: terminal.Yellow})...)
	}
	g.flush(len(tables) - mostRows)
}

// stateOrder lists the states of hosts from the worst to the best, each with its sign and
// colour.
var stateOrder = []struct {
	state  status.HostState
	sign   string
	colour terminal.Style
}{
	{status.Ejected, "✕", terminal.Red}, {status.Suspect, "▲", terminal.Red}, {status.Probing, "◐", terminal.Yellow}, {status.SlowStart, "◔", terminal.Yellow},
	{status.Healthy, "●", terminal.Green}, {status.Remote, "○", terminal.Faint}, {status.Tokenless, "○", terminal.Faint},
}

func stateRank(state status.HostState) int {
	for i, s := range stateOrder {
		if s.state == state {
			return i
		}
	}
	return len(stateOrder) - 1
}

func (d *screen) hosts() {
	hosts := slices.Clone(d.s.Hosts)
	slices.SortStableFunc(hosts, func(a, b status.Host) int { return cmp.Compare(stateRank(a.State), stateRank(b.State)) })
	// The columns that change and matter most are within the first 80 characters.
	g := d.grid("HOST", "RACK", "STATE", "KEYS", "STMTS", "WAIT", "K/STMT", "LAT|ms", "OLDEST|ms", "SUBQ|/s", "SHARE|%", "HEDGED|away/s", "HEDGES|to/s")
	g.left[1], g.left[2] = true, true
	for i := range hosts {
		h := &hosts[i]
		s := stateOrder[stateRank(h.State)]
		g.add(cellText{text: clean(h.Address)}, cellText{text: clean(h.DC + " " + h.Rack)},
			cellText{text: s.sign + " " + clean(strings.ReplaceAll(string(h.State), "_", " ")), colour: s.colour},
			cellText{text: strconv.Itoa(h.InflightKeys)}, cellText{text: strconv.Itoa(h.Statements)},
			cellText{text: strconv.Itoa(h.Waiting), colour: when(h.Waiting > 0, terminal.Yellow)},
			cellText{text: figure(d.hostRate(h.Address, func(h *status.Host) int64 { return h.StatementKeys }) /
				d.hostRate(h.Address, func(h *status.Host) int64 { return h.StatementsSent }))},
			cellText{text: figure(h.LatencyMS)}, cellText{text: figure(h.OldestMS)},
			cellText{text: figure(d.hostRate(h.Address, func(h *status.Host) int64 { return h.SubQueries }))},
			cellText{text: fmt.Sprintf("%.1f", 100*h.Share)},
			cellText{text: figure(d.hostRate(h.Address, func(h *status.Host) int64 { return h.HedgedAway }))},
			cellText{text: figure(d.hostRate(h.Address, func(h *status.Host) int64 { return h.Hedges }))})
	}
	g.flush(0)
}

func (d *screen) clients() {
	clients := slices.Clone(d.s.Clients)
	slices.SortStableFunc(clients, func(a, b status.Client) int {
		x, _, _ := d.rates(clientCount(a.Name))
		y, _, _ := d.rates(clientCount(b.Name))
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Lookups, a.Lookups))
	})
	g := d.grid("CLIENT", "LOOKUPS|/s", "KEYS|/s", "FAILED|/s")
	for _, c := range clients[:min(len(clients), mostRows)] {
		lookups, keys, failed := d.rates(clientCount(c.Name))
		g.add(cellText{text: clean(c.Name)}, cellText{text: figure(lookups)}, cellText{text: figure(keys)}, cellText{text: figure(failed), colour: when(failed > 0, terminal.Yellow)})
	}
	g.flush(len(clients) - mostRows)
}

func (d *screen) trouble() {
	if len(d.s.Errors) == 0 {
		return
	}
	d.line("")
	d.line(d.paint(terminal.Faint, "LATEST TROUBLE"))
	for _, e := range d.s.Errors[:min(len(d.s.Errors), mostRows)] {
		text := e.Last.Local().Format(time.TimeOnly) + fmt.Sprintf(" %6d×  ", e.Count) + clean(e.Message)
		if e.Reason != "" {
			text += " " + clean(e.Reason)
		}
		if e.Host != "" {
			text += " host " + clean(e.Host)
		}
		if e.Table != "" {
			text += " of " + clean(e.Table)
		}
		if e.Client != "" {
			text += " by " + clean(e.Client)
		}
		if e.Detail != "" {
			text += "  " + d.paint(terminal.Faint, clean(e.Detail))
		}
		d.line(text)
	}
}

// when returns colour if yes is true, no colour otherwise.
func when(yes bool, colour terminal.Style) terminal.Style {
	if yes {
		return colour
	}
	return ""
}

// cellText is a cell of a grid.
type cellText struct {
	text   string
	colour terminal.Style
}

// textGrid aligns cells by their visible width. A tabwriter would count the colours.
type textGrid struct {
	*screen
	rows [][]cellText
	// left are the columns that are aligned to the left, because they are not numbers.
	left map[int]bool
}

// headRows is the number of rows of a header: names and units.
const headRows = 2

// grid begins a grid with these headers. The text after a | is the unit. It stands below
// the name: beside it, it would take room from the figures of a narrow window.
func (d *screen) grid(heads ...string) *textGrid {
	g := &textGrid{screen: d, left: map[int]bool{0: true, len(heads) - 1: heads[len(heads)-1] == "GIVES UP"}}
	for range headRows {
		g.rows = append(g.rows, make([]cellText, len(heads)))
	}
	for i, h := range heads {
		name, unit, _ := strings.Cut(h, "|")
		g.rows[0][i], g.rows[1][i] = cellText{text: name, colour: terminal.Faint}, cellText{text: unit, colour: terminal.Faint}
	}
	return g
}

func (g *textGrid) add(cells ...cellText) { g.rows = append(g.rows, cells) }

// mostName is the largest width of a name, so that the figures beside it stay visible.
const mostName = 40

// flush writes the grid if it has more than a header, and a line about more rows left out.
func (g *textGrid) flush(more int) {
	if len(g.rows) == headRows {
		return
	}
	g.line("")
	widths, used := make([]int, len(g.rows[0])), make([]bool, len(g.rows[0]))
	for n, row := range g.rows {
		for i := range row {
			if i == 0 {
				row[i].text = terminal.Fit(row[i].text, mostName)
			}
			widths[i] = max(widths[i], terminal.Width(row[i].text))
			used[i] = used[i] || n >= headRows && row[i].text != ""
		}
	}
	for _, row := range g.rows {
		var b strings.Builder
		for i, c := range row {
			if !used[i] {
				continue
			}
			padding := strings.Repeat(" ", widths[i]-terminal.Width(c.text))
			text := g.paint(c.colour, c.text)
			if i > 0 {
				b.WriteString("  ")
			}
			if g.left[i] {
				b.WriteString(text + padding)
			} else {
				b.WriteString(padding + text)
			}
		}
		g.line(strings.TrimRight(b.String(), " "))
	}
	if more > 0 {
		g.line(g.paint(terminal.Faint, fmt.Sprintf("… and %d more", more)))
	}
}

// figure formats a number with about three digits.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case x == 0:
		return "0"
	case a >= 1e7:
		return fmt.Sprintf("%.0fM", x/1e6)
	case a >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case a >= 1e5:
		return fmt.Sprintf("%.0fk", x/1e3)
	case a >= 1e4:
		return fmt.Sprintf("%.1fk", x/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// clean replaces characters that would control the terminal, or turn the text around: names
// come from outside.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
