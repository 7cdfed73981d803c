package simulate

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// builder is a report that is being built.
type builder struct{ report.Report }

func newReport(o Options, name, title string) *builder {
	return &builder{report.Report{
		Name: name, Title: title, Command: o.Command, Time: time.Now().UTC(), Seed: o.Seed,
		Machine: report.Machine{CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH},
	}}
}

// find adds a finding.
func (b *builder) find(claim, seen string, holds bool) {
	b.Findings = append(b.Findings, report.Finding{Claim: claim, Seen: seen, Holds: holds})
}

// row is one policy under one condition, with its result.
type row struct {
	policy, condition string
	tally             *tally
}

// add adds trials to the runs of the report, each with one round.
func (b *builder) add(rows []row) {
	for _, r := range rows {
		b.Runs = append(b.Runs, report.Run{Target: r.policy, Condition: r.condition, Rounds: []report.Round{r.tally.round()}})
	}
}

func (t *tally) round() report.Round {
	per := func(n int64) *float64 {
		x := float64(n) / float64(t.lookups)
		return &x
	}
	return report.Round{
		Start: t.start, Seconds: t.seconds,
		OfferedRate:   float64(t.lookups) / t.seconds,
		KeysPerLookup: int(t.asked / t.lookups),
		Counts:        report.Counts{Lookups: t.lookups, OK: t.lookups - t.partial, Partial: t.partial, FailedKeys: t.failed},
		Latency:       t.latency(),
		PerLookup:     report.Cost{SubQueries: per(t.subQueries), Hedges: per(t.hedges), Failovers: per(t.failovers)},
	}
}

func (t *tally) latency() report.Latency {
	sum := 0.0
	for _, d := range t.took {
		sum += d.Seconds()
	}
	out := report.Latency{
		Mean: sum / float64(len(t.took)), P50: t.at(0.5).Seconds(), P95: t.at(0.95).Seconds(),
		P99: t.at(0.99).Seconds(), P999: t.at(0.999).Seconds(), Max: t.at(1).Seconds(),
	}
	for _, q := range []float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 1} {
		out.Curve = append(out.Curve, report.Quantile{Q: q, Seconds: t.at(q).Seconds()})
	}
	return out
}

// line describes a trial in one line.
func (t *tally) line(name string) string {
	return fmt.Sprintf("%-26s p50 %s p99 %s p99.9 %s max %s ms, over 125 ms %s %%, extra keys %s %%, %.1f sub-queries, %d keys failed, %.0f s",
		name, millis(t.at(0.5)), millis(t.at(0.99)), millis(t.at(0.999)), millis(t.at(1)), percent(t.over(sla)), percent(t.extra()),
		float64(t.subQueries)/float64(t.lookups), t.failed, t.seconds)
}

// sla is the latency above which tables count lookups as over.
const sla = 125 * time.Millisecond

func latencyTable(title string, rows []row) report.Table {
	out := report.Table{Title: title, Columns: []string{
		"policy", "p50", "p95", "p99", "p99.9", "max", "over 125 ms, %", "extra keys, %", "sub-queries", "keys without answer",
	}}
	for _, r := range rows {
		t := r.tally
		out.Rows = append(out.Rows, []string{
			r.policy, millis(t.at(0.5)), millis(t.at(0.95)), millis(t.at(0.99)), millis(t.at(0.999)), millis(t.at(1)),
			percent(t.over(sla)), percent(t.extra()), fmt.Sprintf("%.1f", float64(t.subQueries)/float64(t.lookups)), strconv.FormatInt(t.failed, 10),
		})
	}
	return out
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 100 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

func percent(x float64) string { return fmt.Sprintf("%.2f", 100*x) }

// tenths returns a share in percent, rounded to a tenth.
func tenths(x float64) float64 { return math.Round(1000*x) / 10 }
