package report

import (
	"fmt"
	"strings"
)

// Verdict says whether a run kept the SLA.
type Verdict struct {
	// Pass is whether it did. Why says in a few words what broke the SLA and is empty otherwise.
	Pass bool
	Why  string
	// Seconds is the spread of the SLA's percentile over the rounds, in seconds; without rounds when
	// it was not measured.
	Seconds Spread
}

// Pass judges a run by the SLA. It passes when the percentile (the median of the rounds) is at most
// the target, no more lookups failed than the percentile leaves over (5 % at p95), and no row was
// wrong or missing.
func Pass(run *Run, sla *SLA) Verdict {
	seconds := run.Merge(func(r *Round) *float64 { return r.percentile(sla.Percentile) })
	counts := run.Counts()
	var why []string
	switch {
	case seconds.Rounds == 0:
		why = append(why, fmt.Sprintf("p%v was not measured", sla.Percentile))
	case seconds.Median > sla.TargetSeconds:
		why = append(why, fmt.Sprintf("p%v is %s ms", sla.Percentile, number(1000*seconds.Median)))
	}
	if float64(counts.Failed) > float64(counts.Lookups)*(1-sla.Percentile/100) {
		why = append(why, plural(counts.Failed, "failed lookup", "failed lookups"))
	}
	if counts.WrongRows > 0 {
		why = append(why, plural(counts.WrongRows, "wrong row", "wrong rows"))
	}
	if counts.MissingKeys > 0 {
		why = append(why, plural(counts.MissingKeys, "missing key", "missing keys"))
	}
	return Verdict{Pass: len(why) == 0, Why: strings.Join(why, ", "), Seconds: seconds}
}

// String returns the SLA in words, such as "p95 ≤ 125 ms".
func (s *SLA) String() string {
	return fmt.Sprintf("p%v ≤ %.4g ms", s.Percentile, 1000*s.TargetSeconds)
}
