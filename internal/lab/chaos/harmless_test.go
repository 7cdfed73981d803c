//go:build chaos

package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// How long a proxy gets each load of no-harm before it is counted, and how long it is counted: with
// both proxies, twice each, 256 s a try.
const (
	harmSettle  = 500 * time.Millisecond
	harmStretch = 1500 * time.Millisecond
)

var noHarm = scenario{
	name: "no-harm", fault: "1 to 16 callers in a closed loop, lookups of 5 to 500 keys, of one row and of four, in turns with and without admission",
	promise: "in time ≥ 0.97 × what is without admission; 0 refused where 99 % are in time without it",
	rely:    "Admission refuses nothing where the SLA is met without it, and costs no answers in time.",
	without: "admission.max_concurrency 1",
	judge:   judgeHarm,
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		tables := map[string]*bench.Dataset{oneRow: a.data[3], fourRows: a.others[len(a.others)-1]}
		start := func(settings string) *subject {
			var yaml strings.Builder
			fmt.Fprintf(&yaml, "listen: {%s}\nshutdown: {delay: 0s}\nadmission: {%s}\ntables:\n", anywhere, settings)
			for _, d := range tables {
				fmt.Fprintf(&yaml, "  - {name: %s.%s, timeout: 2s}\n", d.Profile.Keyspace, d.Profile.Table)
			}
			return a.own(a.data[3], yaml.String())
		}
		settings := "min_concurrency: 1, max_concurrency: 1"
		if safe {
			settings = "enabled: true"
		}
		with, without := start(settings), start("enabled: false")
		defer with.close()
		defer without.close()
		for _, c := range harmCells() {
			// In this order a machine whose speed drifts favours neither.
			for _, pair := range [][]*subject{{with, without}, {without, with}} {
				seen := compared{}
				for _, s := range pair {
					l, refused := a.closed(s, c, tables[c.rows])
					inTime := float64(l.Lookups - l.Failed)
					if s == without {
						seen.inTimeWithout, seen.lateWithout = inTime, float64(l.Failed)
					} else {
						seen.inTime, seen.refused = inTime, refused
					}
				}
				c.note(o, seen)
			}
			seen := c.of(Merge(o))
			a.t.Logf("%s: %+v", c, seen)
			o.figure(Sum, "lookups in time", seen.inTime, "")
			o.figure(Sum, "in time without admission", seen.inTimeWithout, "")
			o.figure(Sum, "refused", seen.refused, "")
		}
		o = Merge(o) // to sum figures of the same name
		a.back(a.subject(3), a.node(3))
		return o
	},
}

// closed loads a proxy with a cell and returns what its callers saw and how many lookups were
// refused.
func (a *arena) closed(s *subject, c cell, d *bench.Dataset) (l *Load, refused float64) {
	a.t.Helper()
	one := a.client(s.proxy, d, func(o *bench.Open) {
		o.Timeout, o.Mix = deadline, []bench.Kind{{Weight: 1, Keys: c.keys}}
	})
	defer one.leave()
	load := bench.Load{Concurrency: c.callers}
	a.loadAt(one, load, harmSettle)
	before := a.ended(s).refused
	l = a.loadAt(one, load, harmStretch)
	return l, a.ended(s).refused - before
}
