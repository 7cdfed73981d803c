package merge

import (
	"math"
	"time"
)

const (
	// mostLimit is how many statements a node works on at a time at most, its
	// native_transport_max_threads unless configured otherwise. Nothing waits for less.
	mostLimit = 128
	// window is how many statements are timed under a limit, beside two for each that it
	// allows.
	window = 64
	// behind is how long sub-queries take, what they wait included, while their host falls
	// behind: half of the hedge delay unless configured otherwise, and timesExpected as long as
	// it would with nothing else to do. A limit is looked for only then: a host that keeps up
	// gains nothing that makes up for the waiting. The limit goes below half of that.
	behind        = unknownOverdue / 2
	timesExpected = 2
	// slack is what a smaller limit may cost of the time that sub-queries take: it spares the
	// node statements, and times of windows vary by more.
	slack = 1.05
	// evident is how many times longer than before sub-queries take when a smaller limit is
	// given up after a quarter of its window, and late how many times longer than usual one
	// waits when it is given up at once.
	evident, late = 1.5, 2
	// surge is how many times longer than usual one waits when a limit is given up that was
	// found under less load.
	surge = 5
	// change is the factor between times of one limit beyond which the machine or its load has
	// changed.
	change = 2
	// mostPause is for how many windows at most nothing is tried after what was tried in vain:
	// tries are then a thirtieth of the time.
	mostPause = 32
	// outlier bounds what one answer can say: beyond it, it waits for something else.
	outlier = 4
)

// limiter finds how many statements a host may have in-flight: the fewest with which
// sub-queries take no longer, what they wait included. It begins with as many as come, and
// tries the next smaller and the next larger limit in turns. A try is judged by the windows
// before and after it, for the load changes as well.
type limiter struct {
	// limit is what has been found; using is that, or what is being tried.
	limit, using int
	// time is what sub-queries took in the last window at the limit, in nanoseconds; 0 when
	// that is not known.
	time float64
	// tried is the limit that was tried between that window and this, and triedTime what
	// sub-queries took; tried is 0 when none was.
	tried     int
	triedTime float64
	// found is set once a try was in vain, so that the limit is near; up says to try a larger
	// one next.
	found, up bool
	// wait is for how many windows nothing is tried, and pause how many it was the last time.
	wait, pause int

	// Of this window: statements were answered, subQueries took sum nanoseconds, peak is the
	// most that were in-flight, and waited is set when some sub-query has.
	// expected is how long they would have taken a host with nothing else to do.
	statements, subQueries int
	sum, expected          float64
	peak                   int
	waited                 bool
}

func newLimiter() *limiter { return &limiter{limit: mostLimit, using: mostLimit} }

// most implements limiting.
func (l *limiter) most() int { return l.using }

// sent implements limiting.
func (l *limiter) sent(inFlight int) { l.peak = max(l.peak, inFlight) }

// waits implements limiting. When it is for longer than anything was to be expected, the load
// has grown faster than a limit is found: then nothing waits until a new one is.
func (l *limiter) waits(since time.Duration) {
	l.waited = true
	if l.time == 0 {
		return
	}
	switch than := float64(since) / l.time; {
	case than > surge:
		*l = *newLimiter()
	case than > late && l.using < l.limit:
		l.failed()
	}
}

// took implements limiting.
func (l *limiter) took(subQueries int, sum, expected time.Duration) {
	l.expected += float64(expected)
	x := float64(sum)
	if l.time > 0 {
		x = min(x, outlier*l.time*float64(subQueries))
	}
	l.sum += x
	l.subQueries += subQueries
	l.statements++
	enough := window + 2*min(l.using, l.peak)
	mean := l.sum / float64(l.subQueries)
	if l.using < l.limit && l.statements >= enough/4 && mean > evident*l.time {
		l.failed()
		return
	}
	if l.statements >= enough {
		l.judge(mean)
	}
}

// judge takes the mean time of a window.
func (l *limiter) judge(mean float64) {
	before := l.time
	switch {
	case l.using != l.limit && l.better(l.using, mean, before):
		l.accept(l.using, mean)
	case l.using != l.limit:
		l.tried, l.triedTime = l.using, mean
		l.using = l.limit
		l.begin()
		return
	case l.tried > 0 && l.better(l.tried, l.triedTime, (before+mean)/2):
		l.accept(l.tried, l.triedTime)
	case l.tried > 0:
		l.time, l.tried = mean, 0
		l.vain()
	default:
		l.time = mean
		if l.limit < mostLimit && mean < l.behind()/2 {
			*l = *newLimiter()
			l.time = mean
			return
		}
		if before > 0 && max(mean, before) > change*min(mean, before) {
			l.wait, l.pause = 0, 0
		}
	}
	if l.wait > 0 {
		l.wait--
	} else {
		l.try()
	}
	l.begin()
}

// better reports whether a limit with which sub-queries take so long is to be preferred to
// the present one, with which they take another time.
func (l *limiter) better(limit int, took, other float64) bool {
	if limit < l.limit {
		return took <= slack*other
	}
	return slack*took < other
}

func (l *limiter) accept(limit int, took float64) {
	l.limit, l.using, l.time, l.tried, l.pause = limit, limit, took, 0, 0
}

// failed ends a try of a smaller limit that has cost enough.
func (l *limiter) failed() {
	l.using, l.tried = l.limit, 0
	l.vain()
	l.begin()
}

// vain takes note of a try that has brought nothing.
func (l *limiter) vain() {
	l.found, l.up = true, !l.up
	l.pause = min(max(2*l.pause, 1), mostPause)
	l.wait = l.pause
}

// try begins to use the next limit, if it would make a difference: a larger one where
// something waited, a smaller one where something would and the host falls behind.
func (l *limiter) try() {
	n := min(l.limit, l.peak)
	larger, smaller := l.waited && l.limit < mostLimit, n > 1 && l.time >= l.behind()
	switch {
	case larger && (l.up || !smaller):
		l.using = min(l.limit+(l.limit+1)/2, mostLimit)
	case smaller && l.found:
		l.using = n - (n+2)/3
	case smaller:
		l.using = n / 2
	}
}

// behind is how long sub-queries of this window take on average when their host falls behind.
func (l *limiter) behind() float64 {
	return max(float64(behind), timesExpected*l.expected/float64(max(l.subQueries, 1)))
}

// begin begins a window.
func (l *limiter) begin() {
	l.statements, l.subQueries, l.sum, l.expected, l.peak, l.waited = 0, 0, 0, 0, 0, false
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
