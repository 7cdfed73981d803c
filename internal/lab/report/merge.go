package report

import (
	"fmt"
	"math"
	"slices"
)

// Spread is what several rounds say of one figure. The median is shown, least and
// greatest are the noise.
type Spread struct {
	Median, Min, Max float64
	// Rounds is how many had the figure; with 0 the others mean nothing.
	Rounds int
}

// String is the median with three significant digits, and the range if rounds
// differ: "0.14 (0.13–0.15)"; "–" when there is no figure.
func (s Spread) String() string {
	switch {
	case s.Rounds == 0:
		return "–"
	case s.Rounds == 1 || s.Min == s.Max:
		return number(s.Median)
	default:
		return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Min), number(s.Max))
	}
}

// spreadOf takes the figures of rounds in any order.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1], Rounds: len(sorted)}
}

// Merge is the median, least and greatest of a figure over the rounds. So the p99
// of a run is the median of the p99 of its rounds, not the p99 of all lookups: one
// disturbed round shows in the range and does not move the figure.
func (r *Run) Merge(figure Figure) Spread {
	var values []float64
	for i := range r.Rounds {
		if v := figure(&r.Rounds[i]); v != nil {
			values = append(values, *v)
		}
	}
	return spreadOf(values)
}

// Ratio compares a figure of one run with a figure of another that was measured in
// turns with it: the spread of the ratios of a's first round to b's first, second
// to second, and so on. What disturbs both runs of a turn alike cancels out. Rounds
// without a partner or figure, or where b's is 0, are left out; so is all when a or
// b is nil.
func Ratio(a *Run, over Figure, b *Run, under Figure) Spread {
	var ratios []float64
	if a == nil || b == nil {
		return Spread{}
	}
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		n, d := over(&a.Rounds[i]), under(&b.Rounds[i])
		if n != nil && d != nil && *d != 0 {
			ratios = append(ratios, *n / *d)
		}
	}
	return spreadOf(ratios)
}

// Counts is the sum over the rounds.
func (r *Run) Counts() Counts {
	sum := Counts{Errors: map[string]int64{}}
	for i := range r.Rounds {
		c := &r.Rounds[i].Counts
		sum.Lookups += c.Lookups
		sum.OK += c.OK
		sum.Partial += c.Partial
		sum.Failed += c.Failed
		sum.Late += c.Late
		sum.Right += c.Right
		sum.Good += c.Good
		sum.FailedKeys += c.FailedKeys
		sum.MissingKeys += c.MissingKeys
		sum.WrongRows += c.WrongRows
		for text, n := range c.Errors {
			sum.Errors[text] += n
		}
	}
	return sum
}

// Curve is the distribution of the run: at each quantile of the first round the
// median of the rounds' latencies. Empty when the rounds have no curve.
func (r *Run) Curve() []Quantile {
	var curve []Quantile
	for _, point := range r.Rounds[0].Latency.Curve {
		at := r.Merge(func(round *Round) *float64 { return round.Latency.at(point.Q) })
		curve = append(curve, Quantile{Q: point.Q, Seconds: at.Median})
	}
	return curve
}

// at is the latency in seconds at the quantile q: the named percentile, or a point
// of the curve, in between on a straight line; nil when the curve does not reach.
func (l *Latency) at(q float64) *float64 {
	const same = 1e-9
	for i, point := range l.Curve {
		switch {
		case math.Abs(point.Q-q) < same:
			return &point.Seconds
		case point.Q > q && i > 0:
			before := l.Curve[i-1]
			v := before.Seconds + (point.Seconds-before.Seconds)*(q-before.Q)/(point.Q-before.Q)
			return &v
		case point.Q > q:
			return nil
		}
	}
	return nil
}

// percentile is the latency in seconds at p, above 0 and below 100; nil when the
// round does not say.
func (l *Latency) percentile(p float64) *float64 {
	switch p {
	case 50:
		return &l.P50
	case 95:
		return &l.P95
	case 99:
		return &l.P99
	case 99.9:
		return &l.P999
	default:
		return l.at(p / 100)
	}
}

// Name is the target with its condition, if it has one.
func (r *Run) Name() string {
	if r.Condition == "" {
		return r.Target
	}
	return r.Target + ", " + r.Condition
}
