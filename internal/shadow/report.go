package shadow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// maxReasons is how many different reasons of refusals a report lists at most.
const maxReasons = 10

// Report is the outcome of a comparison; it encodes as JSON. Counts are exact. Lists have
// limits and may be incomplete.
type Report struct {
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Baseline is how the driver read, and Proxy which proxy was asked.
	Baseline Baseline `json:"baseline"`
	Proxy    string   `json:"proxy"`
	// Concurrency is how many lookups were in-flight, and Rate the limit per second; 0 means
	// no limit.
	Concurrency int     `json:"concurrency"`
	Rate        float64 `json:"rate,omitempty"`
	// Result is the verdict in one word, Verdict in one sentence.
	Result  Result `json:"result"`
	Verdict string `json:"verdict"`

	// Lookups is how many lookups were read both ways or refused by a side, with Keys keys.
	// Refused is how many lookups were refused: by the input, the proxy or the driver.
	Lookups int64 `json:"lookups"`
	Keys    int64 `json:"keys"`
	Refused int64 `json:"refused"`
	// Compared is how many keys both sides answered. Of these, DifferentKeys differ,
	// ChangedKeys were written meanwhile, and UnsettledKeys could not be read again often
	// enough.
	Compared      int64 `json:"compared_keys"`
	DifferentKeys int64 `json:"different_keys"`
	ChangedKeys   int64 `json:"changed_keys"`
	UnsettledKeys int64 `json:"unsettled_keys"`
	// Kinds counts differences by kind: a key with two different cells has two.
	Kinds map[Kind]int64 `json:"differences_by_kind"`
	// Tables are the tables of the lookups, sorted by name.
	Tables []*TableReport `json:"tables"`
	// Driver and Proxied are the two sides.
	Driver  SideReport `json:"driver"`
	Proxied SideReport `json:"proxied"`
	// WarmUp is how many lookups at the beginning were compared but not timed.
	WarmUp int64 `json:"warm_up_lookups"`
	// CPU is the reason why the CPU time of Cassandra was not measured; empty if it was.
	CPU string `json:"cpu_not_measured,omitempty"`
	// Reasons are the reasons of refusals, at most maxReasons of them.
	Reasons []Reason `json:"refusals"`
	// Differences are listed up to MaxDifferences.
	Differences    []Difference `json:"differences"`
	MaxDifferences int          `json:"differences_listed_at_most"`

	timed, warm [len(sides)]timing
	turns       int
	cpuSeen     bool
}

// SideReport is what one side did.
type SideReport struct {
	Latency
	// Unanswered counts the keys without an answer, by status.
	Unanswered map[string]int64 `json:"unanswered_keys"`
	// Statements is how many statements the driver, or sub-queries the proxy, sent for the
	// timed lookups.
	Statements int64 `json:"statements"`
	// CPUMillis is the CPU time of all Cassandra nodes per timed lookup, in milliseconds; nil
	// if it was not measured.
	CPUMillis *float64 `json:"cassandra_cpu_ms_per_lookup"`
}

// TableReport is the outcome for one table.
type TableReport struct {
	Name          string `json:"name"`
	Lookups       int64  `json:"lookups"`
	Keys          int64  `json:"keys"`
	Compared      int64  `json:"compared_keys"`
	DifferentKeys int64  `json:"different_keys"`
	ChangedKeys   int64  `json:"changed_keys"`
	UnsettledKeys int64  `json:"unsettled_keys"`
}

// Reason is a reason for which lookups were refused.
type Reason struct {
	Side    string `json:"side"`
	Text    string `json:"reason"`
	Lookups int64  `json:"lookups"`
	// First is the number of the first lookup that was refused for this reason.
	First int64 `json:"first_lookup"`
}

// Result is the verdict of a report in one word.
type Result string

// The results.
const (
	// Same means that every key that both sides answered has the same rows.
	Same Result = "same"
	// Differs means that some key differs.
	Differs Result = "different"
	// Open means that no key is known to differ, but that lookups were refused, or that keys
	// which differed could not be read again often enough.
	Open Result = "open"
	// Nothing means that nothing was compared.
	Nothing Result = "nothing compared"
)

// timing is what a side needed for some lookups.
type timing struct {
	sample
	statements int64
	cpu        time.Duration
}

// begin empties the report.
func (r *Report) begin() {
	r.Started, r.cpuSeen = time.Now().UTC(), true
	r.Kinds, r.Tables, r.Reasons, r.Differences = map[Kind]int64{}, []*TableReport{}, []Reason{}, []Difference{}
	r.Driver.Unanswered, r.Proxied.Unanswered = map[string]int64{}, map[string]int64{}
}

// side returns the report of a side.
func (r *Report) side(s Side) *SideReport {
	if s == DriverSide {
		return &r.Driver
	}
	return &r.Proxied
}

// table returns the report of a table.
func (r *Report) table(name string) *TableReport {
	i, known := slices.BinarySearchFunc(r.Tables, name, func(t *TableReport, name string) int { return cmp.Compare(t.Name, name) })
	if !known {
		r.Tables = slices.Insert(r.Tables, i, &TableReport{Name: name})
	}
	return r.Tables[i]
}

// refuse counts a lookup of the input that is not valid.
func (r *Report) refuse(item *Item) {
	r.Refused++
	r.reason("input", item.Err, item.Number)
}

// reason counts why a lookup was refused.
func (r *Report) reason(side string, err error, number int64) {
	text := clip(err.Error())
	for i := range r.Reasons {
		if r.Reasons[i].Side == side && r.Reasons[i].Text == text {
			r.Reasons[i].Lookups++
			return
		}
	}
	if len(r.Reasons) < maxReasons {
		r.Reasons = append(r.Reasons, Reason{Side: side, Text: text, Lookups: 1, First: number})
	}
}

// add counts a lookup that was read both ways; v is nil if a side refused it.
func (r *Report) add(a *answers, v *Verdict) {
	req := a.item.Request
	t := r.table(req.Table.Schema.String())
	keys := int64(len(req.Keys))
	r.Lookups, r.Keys, t.Lookups, t.Keys = r.Lookups+1, r.Keys+keys, t.Lookups+1, t.Keys+keys
	if v == nil {
		r.Refused++
		for _, side := range sides {
			if a.err[side] != nil {
				r.reason(side.String(), a.err[side], a.item.Number)
			}
		}
		return
	}
	for _, c := range []struct {
		all, table *int64
		n          int
	}{
		{&r.Compared, &t.Compared, v.Compared}, {&r.DifferentKeys, &t.DifferentKeys, v.Different},
		{&r.ChangedKeys, &t.ChangedKeys, v.Changed}, {&r.UnsettledKeys, &t.UnsettledKeys, v.Unsettled},
	} {
		*c.all += int64(c.n)
		*c.table += int64(c.n)
	}
	for _, side := range sides {
		for status, n := range v.Unanswered[side] {
			r.side(side).Unanswered[status.String()] += int64(n)
		}
	}
	for _, d := range v.Differences {
		r.Kinds[d.Kind]++
		if len(r.Differences) < r.MaxDifferences {
			d.Lookup = a.item.Number
			r.Differences = append(r.Differences, d)
		}
	}
}

// addTurn adds the durations of a turn. The first turn is not timed, because nodes prepare
// statements in it, unless it is the only one.
func (r *Report) addTurn(turn []*answers, spent [len(sides)]time.Duration, seen bool) {
	to := &r.timed
	if r.turns++; r.turns == 1 {
		to = &r.warm
	}
	r.cpuSeen = r.cpuSeen && seen
	for _, side := range sides {
		to[side].cpu += spent[side]
		for _, a := range turn {
			// Both or neither: percentiles of different lookups cannot be compared.
			if a.err[DriverSide] == nil && a.err[ProxySide] == nil {
				to[side].add(a.answer[side].Elapsed)
				to[side].statements += int64(a.answer[side].Sent)
			}
		}
	}
}

// end updates the computed fields of the report.
func (r *Report) end() {
	r.Ended = time.Now().UTC()
	timed := &r.timed
	if r.WarmUp = r.warm[DriverSide].seen; timed[DriverSide].seen == 0 {
		timed, r.WarmUp = &r.warm, 0
	}
	for _, side := range sides {
		s, t := r.side(side), &timed[side]
		s.Latency, s.Statements, s.CPUMillis = t.latency(), t.statements, nil
		if r.CPU == "" && r.cpuSeen && t.seen > 0 {
			ms := float64(t.cpu) / float64(time.Millisecond) / float64(t.seen)
			s.CPUMillis = &ms
		}
	}
	if r.CPU == "" && !r.cpuSeen {
		r.CPU = "the CPU time of a node could not be read all the time"
	}
	r.Result, r.Verdict = r.judge()
}

// judge returns the verdict.
func (r *Report) judge() (Result, string) {
	switch {
	case r.DifferentKeys > 0:
		return Differs, plural(r.DifferentKeys, "key", "keys") + " of " + count(r.Compared) + " that both have answered differ"
	case r.Compared == 0:
		return Nothing, "Nothing was compared: no key was answered both ways"
	case r.Refused > 0:
		return Open, "No difference in " + plural(r.Compared, "key", "keys") + ", but " + plural(r.Refused, "lookup was", "lookups were") + " refused"
	case r.UnsettledKeys > 0:
		return Open, plural(r.UnsettledKeys, "key differs", "keys differ") + " but could not be read again to be sure"
	}
	return Same, "No difference in " + plural(r.Compared, "key", "keys") + " of " + plural(r.Lookups, "lookup", "lookups")
}

// unanswered returns how many keys a side did not answer.
func (s *SideReport) unanswered() (n int64) {
	for _, keys := range s.Unanswered {
		n += keys
	}
	return n
}

// statuses returns the statuses in Unanswered, in the order of partition.Statuses.
func (s *SideReport) statuses() []string {
	known := make([]string, len(partition.Statuses))
	for i, status := range partition.Statuses {
		known[i] = status.String()
	}
	return slices.SortedFunc(maps.Keys(s.Unanswered), func(a, b string) int {
		return cmp.Compare(slices.Index(known, a), slices.Index(known, b))
	})
}
