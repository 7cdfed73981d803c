package merge

import (
	"math"
	"time"
)

const (
	// firstLimit is how many statements a host may have in-flight until more is known.
	firstLimit = 1
	// mostLimit is how many statements a node works on at a time at most, its
	// native_transport_max_threads unless configured otherwise.
	mostLimit = 128
	// window is how many statements are counted to find the rate of a limit, beside two for
	// each that it allows. With half as many, noise stops growth for thousands of statements.
	window = 64
	// worth is the part of what a larger limit would bring to an idle host that it must bring.
	worth = 0.5
	// change is the factor between rates of one limit beyond which the machine or its load has
	// changed. Simulated windows vary by a fifth.
	change = 1.5
	// mostPause is for how many windows at most nothing is tried after what was tried in vain:
	// tries are then a thirtieth of the time.
	mostPause = 32
	// outlier bounds what one answer can say: beyond it, it waits for something else.
	outlier = 4
)

// limiter finds how many statements a host may have in-flight: the fewest with which it
// answers about as many keys a second as with more. It counts only while something waits, and
// tries the next larger and the next smaller limit in turns.
type limiter struct {
	// limit is what has been found; using is that, or what is being tried.
	limit, using int
	// rate is what windows at the limit brought, in keys a nanosecond: the last one weighs as
	// much as all before.
	rate float64
	// down says to try a smaller limit next.
	down bool
	// wait is for how many windows nothing is tried, and pause how many it was the last time.
	wait, pause int

	// keys and statements were answered in busy nanoseconds of this window, and since
	// busySince unless that is 0.
	keys, statements int
	busy, busySince  int64
}

func newLimiter() limiter { return limiter{limit: firstLimit, using: firstLimit} }

// queued takes note of whether something waits.
func (l *limiter) queued(some bool, now int64) {
	switch {
	case some && l.busySince == 0:
		l.busySince = now
	case !some && l.busySince > 0:
		l.busy += now - l.busySince
		l.busySince = 0
	}
}

// answered takes an answer of so many keys.
func (l *limiter) answered(keys int, now int64) {
	if l.busySince == 0 {
		return
	}
	l.keys += keys
	l.statements++
	rate := float64(l.keys) / float64(max(l.busy+now-l.busySince, 1))
	enough := window + 2*l.using
	// A limit that is tried and too small is given up before a long queue has formed.
	evident := l.using < l.limit && l.statements >= enough/4 && l.larger(rate)
	if l.statements < enough && !evident {
		return
	}
	l.keys, l.statements, l.busy, l.busySince = 0, 0, 0, now
	l.judge(rate)
}

// larger reports whether the larger limit, of the found and the tried one, is to be preferred
// when the tried one has such a rate.
func (l *limiter) larger(rate float64) bool {
	few, many, fewRate, manyRate := l.limit, l.using, l.rate, rate
	if few > many {
		few, many, fewRate, manyRate = many, few, manyRate, fewRate
	}
	gain := float64(many)/float64(few) - 1
	return manyRate >= fewRate*(1+worth*gain)
}

// judge takes the rate of a window.
func (l *limiter) judge(rate float64) {
	if l.using == l.limit {
		switch {
		case l.rate == 0:
			l.rate = rate
		case max(rate, l.rate) > change*min(rate, l.rate):
			// This window may be of both, so the next one is needed to compare with.
			l.rate, l.down, l.wait, l.pause = rate, rate < l.rate, 1, 0
		}
		l.rate = (l.rate + rate) / 2
		if l.wait > 0 {
			l.wait--
			return
		}
		l.using = min(l.limit+(l.limit+1)/2, mostLimit)
		if l.limit > 1 && (l.down || l.using == l.limit) {
			l.using = l.limit - (l.limit+2)/3
		}
		return
	}
	if l.larger(rate) == (l.using > l.limit) {
		l.limit, l.rate, l.pause = l.using, rate, 0
		return
	}
	l.using = l.limit
	l.down = !l.down
	l.pause = min(max(2*l.pause, 1), mostPause)
	l.wait = l.pause
}

const (
	// unknownOverdue is after how long a read is overdue of which nothing is known: the
	// hedge delay unless configured otherwise.
	unknownOverdue = 15 * time.Millisecond
	// leastOverdue is what timers and the network vary by.
	leastOverdue = time.Millisecond
	// gain and deviationGain are the weights of one answer, and deviations how many
	// of them an answer may exceed the mean by before it is overdue, as in the retransmission
	// timer of TCP (RFC 6298).
	gain, deviationGain = 1.0 / 8, 1.0 / 4
	deviations          = 4
)

// spread is how many times longer than expected answers take, and how much that varies. The
// zero spread knows nothing.
type spread struct{ mean, deviation float64 }

func (s *spread) add(x float64) {
	if s.mean == 0 {
		s.mean, s.deviation = x, x/2
		return
	}
	x = min(x, outlier*s.mean)
	s.deviation += deviationGain * (math.Abs(x-s.mean) - s.deviation)
	s.mean += gain * (x - s.mean)
}

// most is how long an answer takes at most, but for one that waits for something else; 0 is
// what nothing is expected of.
func (s *spread) most(expected time.Duration) time.Duration {
	if s.mean == 0 || expected <= 0 {
		return max(unknownOverdue, expected)
	}
	return max(time.Duration(float64(expected)*(s.mean+deviations*s.deviation)), leastOverdue)
}
