// Package timeline decides what a terminal of a given width shows of a lookup: its hosts,
// the groups of its plan with their keys, and a line for each sub-query on a common time
// scale.
package timeline

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

// Lookup is what to draw. It refers to hosts by address, and to keys by position in Keys.
type Lookup struct {
	// Keys are the keys that were asked for.
	Keys []Key
	// Groups are the sub-queries of the plan.
	Groups []Group
	// Hosts are the replicas of the keys.
	Hosts []Host
	// Stressed is set when so much was late that the cause was taken to be load.
	Stressed bool
	// Fallback is why no replicas were asked for their own data although the table is
	// configured for it, in one word; empty otherwise.
	Fallback string
	// GroupSize is how many keys a group may have; 0 if the planner chooses. StatementCost
	// and KeyCost are the reasons for it; 0 if they are not known.
	GroupSize              int
	StatementCost, KeyCost time.Duration
	// Attempts are the sub-queries in the order they were sent; nil for a lookup that was
	// only planned.
	Attempts []Attempt
	// Elapsed is how long the lookup took.
	Elapsed time.Duration
	// Deadline and SoftDeadline are relative to the start of the lookup; 0 for none.
	Deadline, SoftDeadline time.Duration
}

// Key is one key of a lookup.
type Key struct {
	// Name is the key as people write it.
	Name string
	// Token is its token.
	Token int64
	// Replicas are the addresses of its replicas, in ring order.
	Replicas []string
	// Group is the index of the group that asks for it; -1 for none: it was shed, no replica
	// can be asked, or another lookup was reading it.
	Group int
	// Groups are all groups that ask for it; nil for Group alone.
	Groups []int
	// Compared is the outcome of comparing its replicas, in one word; empty if they were not
	// asked for their own data.
	Compared string
}

// Group is one sub-query of a plan.
type Group struct {
	// Host is the address of the host that it asks.
	Host string
}

// Host is a replica of some key.
type Host struct {
	// Addr, DC and Rack say where it is.
	Addr, DC, Rack string
	// Avoided is why it was avoided, in one word; empty if it was not.
	Avoided string
}

// Attempt is one sub-query.
type Attempt struct {
	// Host is the address that was asked; empty for an attempt of another lookup.
	Host string
	// Kind is first, hedge, failover, reread or, for an attempt of another lookup,
	// coalesced.
	Kind string
	// Keys are the positions of its keys.
	Keys []int
	// Start and End are relative to the start of the lookup.
	Start, End time.Duration
	// HedgeAfter is how long after Start it was late; negative for never.
	HedgeAfter time.Duration
	// Outcome is won, lost, failed, cancelled or pending.
	Outcome string
	// Err is why it failed, and NotHedged why it was late but not hedged, in one word each;
	// empty if they do not apply.
	Err, NotHedged string
	// StatementKeys is how many keys were in the statement that it shared with other
	// lookups; 0 if it shared none.
	StatementKeys int
}

// Options say how to draw.
type Options struct {
	// Width is the width of the terminal in columns; less than 60 counts as 60.
	Width int
	// Colour enables colours for outcomes and marks, as ANSI escape sequences.
	Colour bool
}

// leastWidth is the width below which nothing fits side by side.
const leastWidth = 60

// Draw writes the drawing of a lookup. It returns the error of w.
func Draw(w io.Writer, l *Lookup, o Options) error {
	d := &drawing{lookup: l, width: max(o.Width, leastWidth), colour: o.Colour, letters: make(map[string]string)}
	d.name()
	d.hosts()
	d.groups()
	if len(l.Attempts) > 0 {
		d.subQueries()
	}
	_, err := io.WriteString(w, d.out.String())
	return err
}

// drawing is a drawing in progress.
type drawing struct {
	lookup *Lookup
	width  int
	colour bool
	out    strings.Builder
	// list is every host by address. letters is the short name of each: repeating an address
	// thirty times would leave no room for anything else.
	list    []Host
	letters map[string]string
}

// line writes a line without trailing spaces.
func (d *drawing) line(text string) {
	d.out.WriteString(strings.TrimRight(text, " "))
	d.out.WriteByte('\n')
}

// name gives each host its letter, in the order of addresses.
func (d *drawing) name() {
	d.list = slices.Clone(d.lookup.Hosts)
	for _, a := range d.lookup.Attempts {
		if a.Host != "" && !slices.ContainsFunc(d.list, func(h Host) bool { return h.Addr == a.Host }) { // else it is of another lookup
			d.list = append(d.list, Host{Addr: a.Host})
		}
	}
	slices.SortFunc(d.list, func(a, b Host) int { return byAddress(a.Addr, b.Addr) })
	for i, h := range d.list {
		d.letters[h.Addr] = letter(i)
	}
}

// byAddress sorts 10.0.0.9 before 10.0.0.10.
func byAddress(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// letter returns A to Z, then AA, AB and so on.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

// hosts lists the hosts, and why some were avoided.
func (d *drawing) hosts() {
	dcs := make(map[string]bool)
	address, rack := 0, 0
	place := make([]string, len(d.list))
	for _, h := range d.list {
		dcs[h.DC] = true
	}
	for i, h := range d.list {
		place[i] = h.Rack
		if len(dcs) > 1 {
			place[i] = h.DC + "/" + h.Rack
		}
		address, rack = max(address, terminal.Width(h.Addr)), max(rack, terminal.Width(place[i]))
	}
	d.line(d.heading("HOSTS"))
	for i, h := range d.list {
		text := fmt.Sprintf("%-3s%s  rack %s", d.letters[h.Addr], pad(h.Addr, address), pad(place[i], rack))
		if h.Rack == "" {
			text = fmt.Sprintf("%-3s%s", d.letters[h.Addr], h.Addr)
		}
		if h.Avoided != "" {
			text += "  " + d.paint("avoided: "+h.Avoided, terminal.Yellow)
		}
		d.line(text)
	}
	if d.lookup.GroupSize > 0 {
		text := fmt.Sprintf("A group may have %d keys", d.lookup.GroupSize)
		if d.lookup.KeyCost > 0 {
			text += fmt.Sprintf(": a statement costs %s, a key %s", millis(d.lookup.StatementCost), millis(d.lookup.KeyCost))
		}
		d.line(d.faint(text + "."))
	}
	if d.lookup.Fallback != "" {
		d.line("Read through coordinators: " + d.lookup.Fallback + ".")
	}
	if d.lookup.Stressed {
		d.line(d.paint("Too many hosts are late: taken for load, nothing is hedged.", terminal.Yellow))
	}
}

// groups lists the groups, each with its keys, their tokens and replicas.
func (d *drawing) groups() {
	const tokens = 20
	names, replicas := 0, len("REPLICAS")
	of := make(map[int][]int)
	nobody, others := len(d.lookup.Groups)+1, len(d.lookup.Groups)
	shared := make(map[int]bool)
	for _, a := range d.lookup.Attempts {
		for _, i := range a.Keys {
			shared[i] = shared[i] || a.Host == ""
		}
	}
	for i, k := range d.lookup.Keys {
		g := k.Group
		switch {
		case g >= 0 && g < len(d.lookup.Groups):
		case shared[i]:
			g = others
		default:
			g = nobody
		}
		of[g] = append(of[g], i)
		for _, more := range k.Groups {
			if more != g && more >= 0 && more < len(d.lookup.Groups) {
				of[more] = append(of[more], i)
			}
		}
		names = max(names, terminal.Width(printable(k.Name)))
		replicas = max(replicas, terminal.Width(d.replicas(&k)))
	}
	names = min(max(names, len("KEY")), max(d.width-4-2-tokens-2-replicas, 12))
	d.line("")
	d.line(d.heading("GROUPS") + d.faint(fmt.Sprintf("%s  %*s  %s", pad("", names-2), tokens, "TOKEN", "REPLICAS")))
	for g := range nobody + 1 {
		head := plural(len(of[g]), "key")
		switch {
		case g < len(d.lookup.Groups):
			host := d.lookup.Groups[g].Host
			to := fmt.Sprintf("%d → %s %s", g+1, d.letters[host], host)
			if rack := d.rack(host); rack != "" {
				to += ", rack " + rack
			}
			head = to + ": " + head
		case len(of[g]) == 0:
			continue
		case g == others:
			head += " read by another lookup at the same time"
		default:
			head += " asked of nobody: shed, or no replica can be asked"
		}
		d.line(head)
		for _, i := range of[g] {
			k := d.lookup.Keys[i]
			d.line(fmt.Sprintf("    %s  %s  %s", pad(terminal.Fit(printable(k.Name), names), names),
				d.faint(fmt.Sprintf("%*d", tokens, k.Token)), d.replicas(&k)))
		}
	}
}

// replicas names the replicas of a key, and the outcome of comparing them.
func (d *drawing) replicas(k *Key) string {
	if k.Compared == "" {
		return d.short(k.Replicas)
	}
	return d.short(k.Replicas) + "  " + k.Compared
}

// short names hosts by their letters.
func (d *drawing) short(addresses []string) string {
	letters := make([]string, len(addresses))
	for i, a := range addresses {
		letters[i] = d.letters[a]
		if letters[i] == "" {
			letters[i] = "?"
		}
	}
	return strings.Join(letters, " ")
}

func (d *drawing) rack(address string) string {
	for _, h := range d.list {
		if h.Addr == address {
			return h.Rack
		}
	}
	return ""
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
