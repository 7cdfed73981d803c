package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// column is one figure in the table of runs.
type column struct {
	// group is the heading above several heads; name is the head of a column that is shown without its
	// group.
	group, head, name string
	figure            Figure
	// noisy marks a figure that is shown with the range of the rounds where space allows.
	noisy bool
}

// columns returns the columns of the table of runs, without those for which no run has a figure.
func (r *Report) columns() []column {
	const latency, cost, cpu, memory = "latency, ms", "per lookup", "CPU, ms/lookup", "KiB/lookup"
	all := []column{
		{"", "lookups/s", "lookups/s", Rate, true},
		{latency, "p50", "p50, ms", P50, false},
		{latency, "p95", "p95, ms", P95, true},
		{latency, "p99", "p99, ms", P99, true},
		{latency, "p99.9", "p99.9, ms", P999, false},
		{latency, "max", "max, ms", Max, false},
		{cost, "sub-q.", "sub-queries", SubQueries, false},
		{cost, "hedges", "hedges", Hedges, false},
		{cpu, "Cass.", "CPU of Cassandra, ms", CassandraCPU, true},
		{cpu, "JIT", "CPU of Cassandra's compilers, ms", CompilerCPU, false},
		{cpu, "proxy", "CPU of the proxy, ms", ProxyCPU, false},
		{cpu, "client", "CPU of the client, ms", ClientCPU, false},
		{memory, "proxy", "KiB allocated by the proxy", kibibytes(ProxyAlloc), false},
		{memory, "client", "KiB allocated by the client", kibibytes(ClientAlloc), false},
	}
	return slices.DeleteFunc(all, func(c column) bool {
		return !slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Merge(c.figure).Rounds > 0 })
	})
}

func kibibytes(bytes Figure) Figure {
	return func(r *Round) *float64 {
		v := bytes(r)
		if v == nil {
			return nil
		}
		kib := *v / 1024
		return &kib
	}
}

// medianText returns the median with three significant digits, or "–" without rounds.
func medianText(s Spread) string {
	if s.Rounds == 0 {
		return "–"
	}
	return number(s.Median)
}

// conditionRuns are the runs of one condition.
type conditionRuns struct {
	Condition string
	Runs      []*Run
}

// byCondition groups the runs by condition, in order.
func (r *Report) byCondition() []conditionRuns {
	var groups []conditionRuns
	for i := range r.Runs {
		run := &r.Runs[i]
		at := slices.IndexFunc(groups, func(g conditionRuns) bool { return g.Condition == run.Condition })
		if at < 0 {
			at = len(groups)
			groups = append(groups, conditionRuns{Condition: run.Condition})
		}
		groups[at].Runs = append(groups[at].Runs, run)
	}
	return groups
}

// targets returns the names of targets in the order of their first runs.
func (r *Report) targets() []string {
	names := []string{}
	for i := range r.Runs {
		if !slices.Contains(names, r.Runs[i].Target) {
			names = append(names, r.Runs[i].Target)
		}
	}
	return names
}

// setting returns where, when and how the measurement was made, one fact each.
func (r *Report) setting() []fact {
	facts := []fact{
		{"Cluster", r.Cluster},
		{"Machine", r.Machine.String()},
		{"Load", r.load()},
		{"SLA", ""},
		{"Time", r.Time.UTC().Format(time.RFC3339)},
		{"Seed", strconv.FormatUint(r.Seed, 10)},
	}
	if r.SLA != nil {
		facts[3].Value = r.SLA.String()
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

// fact is a named line of the header.
type fact struct{ Name, Value string }

// String describes the machine in one line, such as "8 CPUs (model), 16 GiB, linux/amd64, go1.26".
func (m Machine) String() string {
	parts := []string{plural(int64(m.CPUs), "CPU", "CPUs")}
	if m.Model != "" {
		parts[0] += " (" + m.Model + ")"
	}
	if m.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("%.3g GiB", float64(m.MemoryBytes)/(1<<30)))
	}
	for _, s := range []string{m.OS, m.Go} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

// load describes the load as far as all rounds agree.
func (r *Report) load() string {
	var parts []string
	for _, part := range []func(*Round) string{
		func(o *Round) string { return plural(int64(o.KeysPerLookup), "key", "keys") + " per lookup" },
		func(o *Round) string {
			if o.OfferedRate > 0 {
				return fmt.Sprintf("open loop at %.6g lookups/s", o.OfferedRate)
			}
			return "closed loop with " + plural(int64(o.Concurrency), "caller", "callers")
		},
		func(o *Round) string { return fmt.Sprintf("rounds of %.3g s", o.Seconds) },
	} {
		if text, same := agreed(r.Runs, part); same {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// agreed returns the result of part if it is the same for every round; false if not.
func agreed(runs []Run, part func(*Round) string) (string, bool) {
	said := ""
	for i := range runs {
		for j := range runs[i].Rounds {
			text := part(&runs[i].Rounds[j])
			if said != "" && said != text {
				return "", false
			}
			said = text
		}
	}
	return said, said != ""
}

// rounds returns the greatest number of rounds of any run.
func (r *Report) rounds() int {
	most := 0
	for i := range r.Runs {
		most = max(most, len(r.Runs[i].Rounds))
	}
	return most
}

// reading explains how the figures of several rounds are merged; empty for one round.
func (r *Report) reading() string {
	if r.rounds() < 2 {
		return ""
	}
	return fmt.Sprintf("Figures are the median of %d rounds, in brackets the least and the greatest round: the noise. "+
		"A percentile is the median of the rounds' percentiles.", r.rounds())
}

// unmeasured explains which figures are missing; empty when none is.
func (r *Report) unmeasured() string {
	if len(r.Runs) == 0 || slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Merge(CassandraCPU).Rounds > 0 }) {
		return ""
	}
	return "The CPU of Cassandra was not measured. It is read of nodes that the command starts itself; of others your monitoring has it."
}

// allNotes returns the notes on how to read the figures, followed by the report's own.
func (r *Report) allNotes() []string {
	first := slices.DeleteFunc([]string{r.reading(), r.unmeasured()}, func(s string) bool { return s == "" })
	return slices.Concat(first, r.Notes)
}
