package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Load is the result of a period of load. Add adds another, such as that of another table or try.
type Load struct {
	// Name says when the load ran: before, during or after the fault.
	Name string `json:"name"`
	// Seconds is its duration: the longest of loads that ran side by side, and the sum after Merge.
	Seconds float64 `json:"seconds"`
	// Lookups is the number made. OK had an answer for every key, in time or not. Lost had a key
	// without an answer, a wrong row or a missing one. Failed are the lost and the late.
	Lookups int64 `json:"lookups"`
	OK      int64 `json:"ok"`
	Failed  int64 `json:"failed"`
	Lost    int64 `json:"lost"`
	Late    int64 `json:"late"`
	// WrongRows is the number of rows that differ from what was written; MissingKeys is the number of
	// written keys that were not found.
	WrongRows   int64 `json:"wrong_rows"`
	MissingKeys int64 `json:"missing_keys"`
	// FailedAt is when the first failed lookups ended, in seconds since the load began, ascending; at
	// most 20 of each table.
	FailedAt []float64 `json:"failed_at,omitempty"`
	// Stalls lists when the load generator got no CPU. Lookups that failed at such a time may have
	// failed because of the machine. Add and Merge drop the stalls of other tries.
	Stalls []Stall `json:"stalls,omitempty"`
	// First is the number of first attempts, Extra that of hedges and fail-overs.
	First float64 `json:"first_sub_queries"`
	Extra float64 `json:"extra_sub_queries"`
	// P50, P95, P99 and Max are percentiles over all lookups, in seconds.
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	// Errors counts lookups by the text of their error.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Tables splits the counts by table, when there were several.
	Tables []TableLoad `json:"tables,omitempty"`

	samples []report.Sample
}

// Stall is a period in which the load generator got no CPU.
type Stall struct {
	// At is when the period ended, in seconds since the load began; Seconds is how long it lasted.
	At      float64 `json:"at"`
	Seconds float64 `json:"seconds"`
	// Stolen is the CPU time that the host of this virtual machine gave to others meanwhile, in
	// seconds, to a hundredth.
	Stolen float64 `json:"stolen,omitempty"`
}

func (s Stall) String() string {
	return fmt.Sprintf("%.1f s for %.0f ms (stolen %.0f ms)", s.At, s.Seconds*1e3, s.Stolen*1e3)
}

// TableLoad counts the lookups of one table.
type TableLoad struct {
	// Name says what kind of table it is.
	Name string `json:"name"`
	// Lookups is the number made, Failed the number that failed.
	Lookups int64 `json:"lookups"`
	Failed  int64 `json:"failed"`
}

// NewLoad returns the load of one round.
func NewLoad(r *report.Round) *Load {
	c := &r.Counts
	l := &Load{
		Seconds: r.Seconds, Lookups: c.Lookups, OK: c.OK, Late: c.Late, WrongRows: c.WrongRows, MissingKeys: c.MissingKeys,
		Failed: c.Lookups - c.Good, Lost: c.Lookups - c.Right, FailedAt: slices.Clone(c.BadAt), Errors: maps.Clone(c.Errors), samples: r.Latency.Samples,
	}
	if p := r.PerLookup; p.SubQueries != nil && p.Hedges != nil && p.Failovers != nil {
		l.Extra = (*p.Hedges + *p.Failovers) * float64(c.Lookups)
		l.First = *p.SubQueries*float64(c.Lookups) - l.Extra
	}
	l.finish()
	return l
}

// Add adds the counts and samples of another load, and recomputes the percentiles. Seconds stays.
func (l *Load) Add(other *Load) {
	l.Lookups += other.Lookups
	l.OK += other.OK
	l.Failed += other.Failed
	l.Lost += other.Lost
	l.Late += other.Late
	l.WrongRows += other.WrongRows
	l.MissingKeys += other.MissingKeys
	l.First += other.First
	l.Extra += other.Extra
	if l.Errors == nil {
		l.Errors = map[string]int64{}
	}
	for text, n := range other.Errors {
		l.Errors[text] += n
	}
	for _, t := range other.Tables {
		at := slices.IndexFunc(l.Tables, func(o TableLoad) bool { return o.Name == t.Name })
		if at < 0 {
			l.Tables = append(l.Tables, t)
			continue
		}
		l.Tables[at].Lookups += t.Lookups
		l.Tables[at].Failed += t.Failed
	}
	l.FailedAt = slices.Sorted(slices.Values(slices.Concat(l.FailedAt, other.FailedAt)))
	l.samples = slices.Concat(l.samples, other.samples)
	l.finish()
}

// finish sorts the samples and reads the percentiles from them.
func (l *Load) finish() {
	l.samples = slices.SortedFunc(slices.Values(l.samples), func(a, b report.Sample) int { return cmp.Compare(a.Micros, b.Micros) })
	l.P50, l.P95, l.P99, l.Max = l.at(0.50), l.at(0.95), l.at(0.99), l.at(1)
}

// at returns the latency in seconds that this share of the lookups did not exceed.
func (l *Load) at(share float64) float64 {
	total, seen := int64(0), int64(0)
	for _, s := range l.samples {
		total += s.Count
	}
	for _, s := range l.samples {
		if seen += s.Count; float64(seen) >= share*float64(total) {
			return float64(s.Micros) / 1e6
		}
	}
	return 0
}

// ExtraShare returns the ratio of hedges and fail-overs to first attempts.
func (l *Load) ExtraShare() float64 { return l.Extra / max(l.First, 1) }

// String returns the load in full.
func (l *Load) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d lookups, %s", l.Name, l.Lookups, failures(l.Failed))
	if len(l.Tables) > 1 {
		var parts []string
		for _, t := range l.Tables {
			parts = append(parts, fmt.Sprintf("%s %d of %d", t.Name, t.Failed, t.Lookups))
		}
		fmt.Fprintf(&b, " (%s)", strings.Join(parts, ", "))
	}
	fmt.Fprintf(&b, ", p50 %.1f ms, p99 %.1f ms, slowest %.0f ms, %.1f %% extra sub-queries", l.P50*1e3, l.P99*1e3, l.Max*1e3, l.ExtraShare()*100)
	if l.WrongRows+l.MissingKeys > 0 {
		fmt.Fprintf(&b, ", **%d wrong rows, %d missing keys**", l.WrongRows, l.MissingKeys)
	}
	if words := errorsInWords(l.Errors); words != "" {
		b.WriteString("; errors: " + words)
	}
	return b.String()
}

// Short returns the load in a few words.
func (l *Load) Short() string {
	return fmt.Sprintf("%s %s of %d, p99 %.1f ms", l.Name, failures(l.Failed), l.Lookups, l.P99*1e3)
}

func failures(n int64) string { return fmt.Sprintf("%d failed", n) }

// code matches the prefix of a gRPC error or of a key's error; variable matches the parts in which
// otherwise equal errors differ.
var (
	code     = regexp.MustCompile(`^(?:rpc error: code = (\w+) desc = |KEY_STATUS_(\w+): )`)
	variable = regexp.MustCompile(`\d+(\.\d+)?(ms|s)\b`)
)

// mostErrors is how many kinds of errors are listed.
const mostErrors = 3

// errorsInWords lists the most frequent errors; empty when there are none.
func errorsInWords(errors map[string]int64) string {
	kinds := map[string]int64{}
	for text, n := range errors {
		first, _, _ := strings.Cut(text, "\n")
		first = variable.ReplaceAllString(code.ReplaceAllString(first, "$1$2: "), "the time left")
		kinds[first] += n
	}
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
	})
	var parts []string
	rest := int64(0)
	for i, name := range names {
		if i >= mostErrors {
			rest += kinds[name]
			continue
		}
		parts = append(parts, fmt.Sprintf("%d × “%s”", kinds[name], name))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d others", rest))
	}
	return strings.Join(parts, ", ")
}
