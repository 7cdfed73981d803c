package admission

import (
	"math"
	"time"
)

// exceeds reports whether more lookups were late than may be, by two standard deviations,
// so that it is hardly by chance.
func exceeds(late, allowed float64) bool { return late > allowed+2*math.Sqrt(allowed) }

// perBudget is the resolution of ratios: 5 % of the time that a lookup may take.
const perBudget = 20

// sample is what lookups have shown since the last decision.
type sample struct {
	begin, passed time.Time
	// lookups were noted, of which late were late and allowed may be.
	lookups       int
	late, allowed float64
	// ranked are the same by rank.
	ranked [ranks]judged
	// ratios counts them by ratio; the last is of all that were late.
	ratios [perBudget + 1]int
	// answered and inTime are in keys.
	answered, inTime float64
	// area is the sum over time of the keys in-flight, in key seconds.
	area float64
	// refused is set when a lookup has found no room.
	refused bool
}

// pass accounts for the time since the last change of the keys in-flight.
func (s *sample) pass(inflight int, now time.Time) {
	s.area += float64(inflight) * now.Sub(s.passed).Seconds()
	s.passed = now
}

func (s *sample) add(rank int, ratio, slack float64, inTime bool) {
	s.lookups++
	s.allowed += slack
	s.ranked[rank].lookups++
	at := perBudget
	if inTime {
		at = min(int(ratio*perBudget), perBudget-1)
	} else {
		s.late++
		s.ranked[rank].late++
	}
	s.ratios[at]++
}

func (s *sample) count(keys int, answered, inTime bool) {
	if answered {
		s.answered += float64(keys)
	}
	if inTime {
		s.inTime += float64(keys)
	}
}

// mean is how many keys were in-flight on average.
func (s *sample) mean(now time.Time) float64 { return s.area / max(now.Sub(s.begin).Seconds(), 1e-9) }

// slowest is the ratio that no more lookups exceed than may be late.
func (s *sample) slowest() float64 {
	left := s.allowed
	for at := perBudget; at > 0; at-- {
		if left -= float64(s.ratios[at]); left < 0 {
			return float64(at+1) / perBudget
		}
	}
	return 1.0 / perBudget
}

// collapsed reports whether most lookups were late.
func (s *sample) collapsed() bool { return 2*s.late > float64(s.lookups) }

func (s *sample) tally(now time.Time) tally {
	return tally{lookups: s.lookups, ranked: s.ranked, answered: s.answered, inTime: s.inTime, seconds: now.Sub(s.begin).Seconds()}
}

// judged are lookups, and how many of them were late.
type judged struct{ lookups, late int }

// tally is what was answered in a time, in keys, and how many lookups were late, by rank.
type tally struct {
	lookups                   int
	ranked                    [ranks]judged
	answered, inTime, seconds float64
}

// add adds what was answered later.
func (t *tally) add(o tally) {
	t.lookups += o.lookups
	for rank := range t.ranked {
		t.ranked[rank].add(o.ranked[rank])
	}
	t.answered += o.answered
	t.inTime += o.inTime
	t.seconds += o.seconds
}

// lateShares returns the shares of lookups that were late of two tallies, 0 to 1: those of the
// highest rank that has enough of them in both. Lower ones are refused for its sake.
func lateShares(a, b *tally) (ofA, ofB float64) {
	var all [2]judged
	for rank := range a.ranked {
		x, y := a.ranked[rank], b.ranked[rank]
		all[0].add(x)
		all[1].add(y)
		if min(x.lookups, y.lookups) >= enough/4 {
			return x.share(), y.share()
		}
	}
	return all[0].share(), all[1].share()
}

func (j *judged) add(o judged) { j.lookups, j.late = j.lookups+o.lookups, j.late+o.late }

func (j judged) share() float64 { return float64(j.late) / float64(max(j.lookups, 1)) }

// exceeds reports whether a figure of one tally is more per second than that of another, by
// one standard deviation.
func (t *tally) exceeds(other *tally, mine, its float64) bool {
	mine, its = mine/max(t.seconds, 1e-9), its/max(other.seconds, 1e-9)
	return mine-its > math.Hypot(mine/math.Sqrt(float64(max(t.lookups, 1))), its/math.Sqrt(float64(max(other.lookups, 1))))
}

// recentWindow is how many seconds of lookups must have been late by more than the SLO for
// the limit to be lowered, and for how long it is kept after: hosts that pause for 0.3 s every
// 10 s are within an SLO of 95 %, and no overload.
const recentWindow = 10

// seconds are the lookups that ended in the last minute, by second modulo its length.
type seconds [longWindow]slot

// slot is the lookups that ended in one second, or in several.
type slot struct {
	at            int64
	lookups       int
	late, allowed float64
	classes       [priorities]bool
}

// add takes a lookup that has ended.
func (w *seconds) add(class int, late bool, slack float64, now time.Time) {
	s := &w[now.Unix()%int64(len(w))]
	if s.at != now.Unix() {
		*s = slot{at: now.Unix()}
	}
	s.lookups++
	s.allowed += slack
	s.classes[class] = true
	if late {
		s.late++
	}
}

// sum adds up the last n seconds, the present one included.
func (w *seconds) sum(n int64, now time.Time) slot {
	var sum slot
	for i := range w {
		s := &w[i]
		if s.at <= now.Unix()-n {
			continue
		}
		sum.lookups += s.lookups
		sum.late += s.late
		sum.allowed += s.allowed
		for class, seen := range s.classes {
			sum.classes[class] = sum.classes[class] || seen
		}
	}
	return sum
}

// burn is the share of lookups that were late over the share that may be; 0 when there are
// fewer than least.
func (s *slot) burn(least int) float64 {
	if s.lookups < max(least, 1) {
		return 0
	}
	return s.late / s.allowed
}
