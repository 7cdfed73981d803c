package admission

import (
	"math"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
)

const (
	// shortWindow and longWindow are how many seconds lookups count for. Pauses of all hosts of
	// 0.3 s every 10 s are then within an SLO of 95 %, and no overload.
	shortWindow, longWindow = 10, 60
	// enough is how many lookups say something about an SLO of 95 %: two standard deviations
	// are then 4.5 %. few are enough to say whether most of them were late.
	enough, few = 100, 20
)

// tally counts lookups that have ended or are overdue.
type tally struct {
	lookups       int
	late, allowed float64
	// found is the sum of the keys that each lookup in time found in-flight, and foundLate that
	// of the late ones.
	found, foundLate float64
	// ranks are those that the lookups had.
	ranks [ranks]bool
}

func (t *tally) add(p *Permit, late bool) {
	t.lookups++
	t.allowed += p.table.slo.slack()
	t.ranks[p.rank] = true
	if late {
		t.late++
		t.foundLate += float64(p.found)
	} else {
		t.found += float64(p.found)
	}
}

// exceeds reports whether more lookups were late than may be, by two standard deviations, which
// is hardly chance.
func (t *tally) exceeds() bool { return t.late > t.allowed+2*math.Sqrt(t.allowed) }

// share returns the share of lookups that were late.
func (t *tally) share() float64 { return t.late / float64(max(t.lookups, 1)) }

// seen reports whether there were lookups of a priority.
func (t *tally) seen(p identity.Priority) bool { return t.ranks[2*p] || t.ranks[2*p+1] }

// alone reports whether all were of one rank, so that none is refused for the sake of another.
func (t *tally) alone() bool {
	n := 0
	for _, seen := range t.ranks {
		if seen {
			n++
		}
	}
	return n == 1
}

// usual returns how many keys lookups in time found in-flight on average; 0 if none was in
// time.
func (t *tally) usual() float64 { return t.found / max(float64(t.lookups)-t.late, 1) }

// collapsed reports whether most were late.
func (t *tally) collapsed() bool { return t.share() > 0.5 }

// stalled reports whether all were late, as they are while the hosts stand still.
func (t *tally) stalled() bool { return t.late == float64(t.lookups) }

// burn returns the burn rate, the share of late lookups over the share that may be late; 0 if
// there are fewer than least lookups.
func (t *tally) burn(least int) float64 {
	if t.lookups < least {
		return 0
	}
	return t.late / t.allowed
}

// seconds holds the lookups that ended in the last minute, by second modulo its length.
type seconds [longWindow]struct {
	tally
	at int64
}

func (w *seconds) add(p *Permit, late bool, now time.Time) {
	s := &w[now.Unix()%longWindow]
	if s.at != now.Unix() {
		s.at, s.tally = now.Unix(), tally{}
	}
	s.add(p, late)
}

// sum adds up the last n seconds, the present one included, but for foundLate.
func (w *seconds) sum(n int64, now time.Time) (sum tally) {
	for i := range w {
		s := &w[i]
		if s.at <= now.Unix()-n {
			continue
		}
		sum.lookups += s.lookups
		sum.late += s.late
		sum.allowed += s.allowed
		sum.found += s.found
		for rank, seen := range s.ranks {
			sum.ranks[rank] = sum.ranks[rank] || seen
		}
	}
	return sum
}

// sample is the lookups since the last decision.
type sample struct {
	tally
	begin time.Time
	// ratios holds the part of its time that each took, 1 for those that were late.
	ratios []float64
}

func (s *sample) add(p *Permit, took time.Duration, late bool) {
	s.tally.add(p, late)
	ratio := 1.0
	if !late {
		ratio = float64(took) / float64(p.budget)
	}
	s.ratios = append(s.ratios, ratio)
}

// slowest returns the ratio at the percentile of the SLO.
func (s *sample) slowest() float64 {
	slices.Sort(s.ratios)
	return s.ratios[max(len(s.ratios)-1-int(s.allowed), 0)]
}

// overloaded reports whether lookups are late because of load: more were late in the last
// seconds than may be, and either the late ones found more in-flight than those in time, or
// most were late.
func (s *sample) overloaded(recent *tally) bool {
	return recent.exceeds() && (s.foundLate > growth*s.late*recent.usual() || recent.collapsed())
}
