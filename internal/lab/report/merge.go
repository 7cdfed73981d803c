package report

import (
	"fmt"
	"math"
	"slices"
)

// Spread is one figure over several rounds. The median is what is shown; least and greatest show
// the noise.
type Spread struct {
	Median, Min, Max float64
	// Rounds is how many rounds have the figure; the other fields mean nothing if it is 0.
	Rounds int
}

// String returns the median with three significant digits, and the range if rounds differ: "0.14
// (0.13–0.15)"; "–" when no round has the figure.
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

// spreadOf returns the spread of figures, in any order.
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

// Merge returns the median, least and greatest of a figure over the rounds. So the p99 of a run is
// the median of the p99 of its rounds, not the p99 of all lookups: one disturbed round shows in the
// range but does not move the median.
func (r *Run) Merge(figure Figure) Spread {
	var values []float64
	for i := range r.Rounds {
		if v := figure(&r.Rounds[i]); v != nil {
			values = append(values, *v)
		}
	}
	return spreadOf(values)
}

// Ratio returns the spread of the ratios of a figure of a to a figure of b, round by round. The
// runs must have been measured in turns, so that what disturbs both alike cancels out. Rounds
// without a counterpart or a figure are left out, and so are those in which b's figure is 0. The
// result has no rounds when a or b is nil.
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

// Counts returns the sum over the rounds, without BadAt.
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

// Curve returns the distribution of the run: the median of the rounds' latencies at each quantile
// of the first round. It is empty when the rounds have no curve.
func (r *Run) Curve() []Quantile {
	var curve []Quantile
	for _, point := range r.Rounds[0].Latency.Curve {
		at := r.Merge(func(round *Round) *float64 { return round.Latency.at(point.Q) })
		curve = append(curve, Quantile{Q: point.Q, Seconds: at.Median})
	}
	return curve
}

// at returns the latency in seconds at the quantile q, interpolated linearly between points of the
// curve; nil when the curve does not reach q.
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

// percentile returns the latency in seconds at p, above 0 and below 100; nil when it is not known.
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

// Name returns the target, and the condition if there is one.
func (r *Run) Name() string {
	if r.Condition == "" {
		return r.Target
	}
	return r.Target + ", " + r.Condition
}
