package main

import (
	"fmt"
	"io"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// benchProgress shows what bench is doing: the running step on a terminal, and finished steps and
// rounds everywhere.
type benchProgress struct{ *progress }

func newBenchProgress(out io.Writer) *benchProgress { return &benchProgress{newProgress(out)} }

// say shows a step that has begun.
func (p *benchProgress) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.terminal {
		p.step(text)
		return
	}
	p.done(text)
}

// measuring shows a measurement.
func (p *benchProgress) measuring(at bench.Progress) {
	round := fmt.Sprintf("round %d/%d", at.Round, at.Rounds)
	if at.Round == 0 {
		round = "warm-up"
	}
	switch {
	case at.Done != nil:
		r := at.Done
		rate := float64(r.Counts.Lookups) / r.Seconds
		p.done(fmt.Sprintf("%-18s %-11s %8.1f lookups/s  p50 %6.1f  p95 %6.1f  p99 %6.1f ms%s%s",
			at.Name(), round, rate, r.Latency.P50*1e3, r.Latency.P95*1e3, r.Latency.P99*1e3, cpu(r.PerLookup.CassandraCPUMillis), troubles(r.Counts.Failed+r.Counts.Partial, r.Counts.WrongRows+r.Counts.MissingKeys)))
	case at.Rate > 0:
		p.step(fmt.Sprintf("%s, %s: %.0f lookups/s", at.Name(), round, at.Rate))
	default:
		p.step(at.Name() + ", " + round)
	}
}

// cpu formats the CPU time of Cassandra per lookup, in milliseconds; empty for nil.
func cpu(millis *float64) string {
	if millis == nil {
		return ""
	}
	return fmt.Sprintf("  CPU %5.2f ms", *millis)
}

// troubles formats the counts of what went wrong; empty if nothing did.
func troubles(failed, wrong int64) string {
	s := ""
	if failed > 0 {
		s += fmt.Sprintf("  %d failed", failed)
	}
	if wrong > 0 {
		s += fmt.Sprintf("  %d WRONG OR MISSING", wrong)
	}
	return s
}
