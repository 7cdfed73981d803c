package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/qosproxy/qosproxy/internal/status"
)

// plainWidth is how wide a text is that is not for a terminal.
const plainWidth = 110

// rateSpan is over what time rates are taken.
const rateSpan = 5 * time.Second

// topHistory is what top has seen in the last seconds.
type topHistory struct {
	seen []*status.Snapshot // the oldest first
	// lost is why the proxy could not be reached at the last look; nil when it was.
	lost error
}

// add takes a snapshot, and forgets those that are too old for a rate.
func (h *topHistory) add(s *status.Snapshot) {
	if n := len(h.seen); n > 0 && !h.seen[n-1].Started.Equal(s.Started) {
		h.seen = nil // another process
	}
	h.seen = append(h.seen, s)
	for len(h.seen) > 2 && s.Time.Sub(h.seen[1].Time) >= rateSpan {
		h.seen = h.seen[1:]
	}
}

// rate returns how fast a count grows a second; NaN when that is not known. A count of
// what was not there before began at 0.
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

// rates are those of lookups, keys and failed lookups.
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

// hostRate is the rate of a count of a host.
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

// The colours of top.
const (
	red    = "31"
	yellow = "33"
	green  = "32"
	bold   = "1"
	faint  = "2"

	noColour = "\x1b[0m"
)

// screen is the lines of one look.
type screen struct {
	*topHistory
	s      *status.Snapshot
	colour bool
	lines  []string
}

// draw returns lines of at most width columns and, unless height is 0, at most height
// of them: what is at the bottom is left out, with a word.
func (h *topHistory) draw(width, height int, colour bool) []string {
	d := &screen{topHistory: h, colour: colour}
	if h.lost != nil {
		d.line(d.paint(red, "✕ "+clean(h.lost.Error())))
	}
	if len(h.seen) > 0 {
		d.s = h.seen[len(h.seen)-1]
		if h.lost != nil {
			d.line(d.paint(red, "What follows is of "+d.s.Time.Local().Format(time.TimeOnly)+"."))
		}
		d.header()
		d.tables()
		d.hosts()
		d.clients()
		d.trouble()
	}
	if height > 0 && len(d.lines) > height {
		left := len(d.lines) - height + 1
		d.lines = append(d.lines[:height-1], d.paint(faint, fmt.Sprintf("… %d more lines; make the window higher, or use --once", left)))
	}
	for i, line := range d.lines {
		d.lines[i] = fit(line, width)
	}
	return d.lines
}

func (d *screen) line(text string) { d.lines = append(d.lines, text) }

// paint colours a text, which must not be cleaned after that.
func (d *screen) paint(colour, text string) string {
	if !d.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + noColour
}

func (d *screen) header() {
	s := d.s
	ready := d.paint(green, "● ready")
	if !s.Ready {
		ready = d.paint(red, "✕ not ready: "+clean(s.Reason))
	}
	d.line(d.paint(bold, "qosproxy") + " " + clean(s.Version) + "  " + ready + "  up " + s.Time.Sub(s.Started).Round(time.Second).String())
	lookups, keys, failed := d.rates(func(s *status.Snapshot) status.Count { return s.Total })
	text := fmt.Sprintf("%s lookups/s  %s keys/s  %s failed/s", figure(lookups), figure(keys), figure(failed))
	if a := s.Admission; a != nil && a.Enabled {
		text += fmt.Sprintf("  %d of %d keys under way", a.InflightKeys, a.LimitKeys)
	}
	d.line(text)
	if s.Config.Error != "" {
		d.line(d.paint(yellow, "The configuration files are not in use as they are: "+clean(s.Config.Error)))
	}
	if len(s.Config.NeedRestart) > 0 {
		d.line(d.paint(yellow, "These keys take effect after a restart: "+clean(strings.Join(s.Config.NeedRestart, ", "))))
	}
}

// mostRows is how many tables, clients and troubles are shown; hosts are all shown, the
// worst first.
const mostRows = 10

func (d *screen) tables() {
	tables := slices.Clone(d.s.Tables)
	slices.SortStableFunc(tables, func(a, b status.Table) int {
		x, _, _ := d.rates(tableCount(a.Name))
		y, _, _ := d.rates(tableCount(b.Name))
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Lookups, a.Lookups))
	})
	g := d.grid("TABLE", "LOOKUPS/S", "KEYS/S", "FAILED/S", "P50", "P95", "P99", "P99.9", "SLA ms", "BURN 5m", "GIVES UP")
	for _, t := range tables[:min(len(tables), mostRows)] {
		lookups, keys, failed := d.rates(tableCount(t.Name))
		row := []cellText{{text: clean(t.Name)}, {text: figure(lookups)}, {text: figure(keys)}, {text: figure(failed), colour: when(failed > 0, yellow)}}
		if p := t.Promise; p == nil {
			row = append(row, make([]cellText, 6)...)
		} else {
			w := p.Now
			for i, v := range []float64{w.P50MS, w.P95MS, w.P99MS, w.P999MS} {
				// Only what the promise covers can break it.
				covered := []float64{50, 95, 99, 99.9}[i] <= p.Percentile
				if w.Count == 0 {
					v = math.NaN()
				}
				row = append(row, cellText{text: figure(v), colour: when(covered && v > p.TargetMS, red)})
			}
			row = append(row, cellText{text: fmt.Sprintf("%g", p.TargetMS)}, cellText{text: figure(p.FiveMinutes.BurnRate), colour: when(p.FiveMinutes.BurnRate > 1, red)})
		}
		g.add(append(row, cellText{text: clean(t.GivesUp), colour: yellow})...)
	}
	g.flush(len(tables) - mostRows)
}

// stateOrder are the states of hosts from the worst to the best, each with its sign and
// colour.
var stateOrder = []struct{ state, sign, colour string }{
	{"ejected", "✕", red}, {"suspect", "▲", red}, {"probing", "◐", yellow}, {"slow_start", "◔", yellow}, {"healthy", "●", green},
	{status.Remote, "○", faint}, {status.Tokenless, "○", faint},
}

func stateRank(state string) int {
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
	g := d.grid("HOST", "RACK", "STATE", "SHARE", "INFLIGHT", "LATENCY", "OLDEST ms", "SUBQ/S", "HEDGED AWAY/S", "HEDGES TO/S")
	g.left[1], g.left[2] = true, true
	for i := range hosts {
		h := &hosts[i]
		s := stateOrder[stateRank(h.State)]
		away := d.hostRate(h.Address, func(h *status.Host) int64 { return h.HedgedAway })
		g.add(cellText{text: clean(h.Address)}, cellText{text: clean(h.DC + " " + h.Rack)},
			cellText{text: s.sign + " " + clean(strings.ReplaceAll(h.State, "_", " ")), colour: s.colour},
			cellText{text: fmt.Sprintf("%.1f%%", 100*h.Share)}, cellText{text: strconv.Itoa(h.InflightKeys)}, cellText{text: figure(h.LatencyMS)}, cellText{text: figure(h.OldestMS)},
			cellText{text: figure(d.hostRate(h.Address, func(h *status.Host) int64 { return h.SubQueries }))},
			cellText{text: figure(away)},
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
	g := d.grid("CLIENT", "LOOKUPS/S", "KEYS/S", "FAILED/S")
	for _, c := range clients[:min(len(clients), mostRows)] {
		lookups, keys, failed := d.rates(clientCount(c.Name))
		g.add(cellText{text: clean(c.Name)}, cellText{text: figure(lookups)}, cellText{text: figure(keys)}, cellText{text: figure(failed), colour: when(failed > 0, yellow)})
	}
	g.flush(len(clients) - mostRows)
}

func (d *screen) trouble() {
	if len(d.s.Errors) == 0 {
		return
	}
	d.line("")
	d.line(d.paint(faint, "LATEST TROUBLE"))
	for _, e := range d.s.Errors[:min(len(d.s.Errors), mostRows)] {
		text := e.Last.Local().Format(time.TimeOnly) + fmt.Sprintf(" %6d×  ", e.Count) + clean(e.Message)
		if e.Table != "" {
			text += " of " + clean(e.Table)
		}
		if e.Client != "" {
			text += " by " + clean(e.Client)
		}
		if e.Detail != "" {
			text += "  " + d.paint(faint, clean(e.Detail))
		}
		d.line(text)
	}
}

// when returns a colour if it is called for.
func when(yes bool, colour string) string {
	if yes {
		return colour
	}
	return ""
}

// cellText is a cell of a grid.
type cellText struct{ text, colour string }

// textGrid aligns cells by what they show, which tabwriter cannot: it counts colours.
type textGrid struct {
	*screen
	rows [][]cellText
	// left are the columns that are not of numbers; the first is one.
	left map[int]bool
}

func (d *screen) grid(heads ...string) *textGrid {
	g := &textGrid{screen: d, left: map[int]bool{0: true, len(heads) - 1: heads[len(heads)-1] == "GIVES UP"}}
	row := make([]cellText, len(heads))
	for i, h := range heads {
		row[i] = cellText{text: h, colour: faint}
	}
	g.rows = append(g.rows, row)
	return g
}

func (g *textGrid) add(cells ...cellText) { g.rows = append(g.rows, cells) }

// mostName is how wide a name may be, so that the figures beside it are seen.
const mostName = 40

// flush writes the grid, if it has more than a head, with a word on rows left out.
func (g *textGrid) flush(more int) {
	if len(g.rows) == 1 {
		return
	}
	g.line("")
	widths := make([]int, len(g.rows[0]))
	for _, row := range g.rows {
		for i := range row {
			if i == 0 {
				row[i].text = fit(row[i].text, mostName)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i].text))
		}
	}
	for _, row := range g.rows {
		var b strings.Builder
		for i, c := range row {
			padding := strings.Repeat(" ", widths[i]-uniseg.StringWidth(c.text))
			text := c.text
			if c.colour != "" && text != "" {
				text = g.paint(c.colour, text)
			}
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
		g.line(g.paint(faint, fmt.Sprintf("… and %d more", more)))
	}
}

// figure writes a number with three digits or so.
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

// clean takes from a text what would steer the terminal, or turn the text around: names
// come from outside.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// colours are the escape sequences of paint.
var colours = regexp.MustCompile("\x1b\\[[0-9]*m")

// fit cuts a line to a width; colours take none.
func fit(line string, width int) string {
	if uniseg.StringWidth(colours.ReplaceAllString(line, "")) <= width {
		return line
	}
	var b strings.Builder
	used, painted := 0, false
	for line != "" {
		if at := colours.FindStringIndex(line); at != nil && at[0] == 0 {
			painted = line[:at[1]] != noColour
			b.WriteString(line[:at[1]])
			line = line[at[1]:]
			continue
		}
		cluster, rest, wide, _ := uniseg.FirstGraphemeClusterInString(line, -1)
		if used+wide > width-1 {
			break
		}
		b.WriteString(cluster)
		line, used = rest, used+wide
	}
	b.WriteString("…")
	if painted {
		b.WriteString(noColour)
	}
	return b.String()
}
