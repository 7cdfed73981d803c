package admission

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
)

const (
	shop   = "shop.products"
	second = time.Second
)

var slo = SLO{Target: 125 * time.Millisecond, Percentile: 95}

// A cluster in virtual time. Each host has a queue and one worker; a sub-query
// occupies it for a fixed time and a time for each key, both random. What was
// sent is done even when nobody waits for it any more, as CQL has no cancel.
const (
	simHosts    = 6
	simGroups   = 3
	simFixed    = 500 * time.Microsecond
	simPerKey   = 180 * time.Microsecond
	simDeadline = 125 * time.Millisecond
	// simQueue is the most keys that are outstanding at a host, as with the executor.
	simQueue = 1024
	// simBackoff is how long a caller of a closed loop waits after a refusal.
	simBackoff = 5 * time.Millisecond
)

// caller is a client with a load: lookups of so many keys, so many a second at random
// (Poisson), or in a closed loop, so many at a time.
type caller struct {
	who      *identity.Client
	rate     func(at time.Duration) float64
	loops    int
	keys     int
	deadline time.Duration
}

// steady is a rate that does not change.
func steady(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

// done is a lookup of a simulation.
type done struct {
	who  string
	at   time.Duration
	took time.Duration
	// answered is set if all keys were answered, ok if that was in time, shed if admission
	// refused it.
	answered, ok, shed bool
}

// sim is a proxy before a cluster.
type sim struct {
	t          testing.TB
	controller *Controller
	rng        *rand.Rand
	begin      time.Time
	free       [simHosts]time.Time
	events     events
	done       []done
	// floor is added to the time of every lookup, and so is a random time, of which tail is the
	// mean.
	floor, tail time.Duration
	// slow is how many times longer than usual the hosts take; 0 is 1.
	slow float64
	// quota, when above 0, is how much of each simPeriod a host may work, as a control group
	// of Linux has it: when it is used up, the host pauses. used is by host and period.
	quota time.Duration
	used  [simHosts]time.Duration
	last  [simHosts]time.Duration
}

// simPeriod is that of the kernel's quotas.
const simPeriod = 100 * time.Millisecond

// work has a host do some work, and returns when it is done.
func (s *sim) work(h int, work time.Duration) time.Time {
	at := s.free[h]
	if s.quota == 0 {
		return at.Add(work)
	}
	// Periods of the hosts begin at different times.
	period := func(t time.Time) time.Duration {
		return (t.Sub(s.begin) + time.Duration(h)*simPeriod/simHosts) / simPeriod
	}
	start := func(p time.Duration) time.Time { return s.begin.Add(p*simPeriod - time.Duration(h)*simPeriod/simHosts) }
	if s.last[h] != period(at) {
		s.last[h], s.used[h] = period(at), 0
	}
	for {
		can := min(s.quota-s.used[h], start(s.last[h]+1).Sub(at))
		if work <= can {
			s.used[h] += work
			return at.Add(work)
		}
		work -= max(can, 0)
		s.last[h]++
		s.used[h], at = 0, start(s.last[h])
	}
}

// noisy holds the hosts to a quarter of a CPU each, which is as slow as the slow hosts are, and
// has one of them pause for 50 to 200 ms three times a second, until a moment.
func (s *sim) noisy(until time.Duration) {
	s.slow, s.quota = 1, simPeriod/4
	if time.Since(s.begin) > until {
		return
	}
	h := s.rng.IntN(simHosts)
	if s.free[h].Before(time.Now()) {
		s.free[h] = time.Now()
	}
	s.free[h] = s.free[h].Add(time.Duration(50+s.rng.IntN(150)) * time.Millisecond)
	s.after(time.Duration(s.rng.ExpFloat64()*300)*time.Millisecond, func() { s.noisy(until) })
}

type event struct {
	at time.Time
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// configured changes the configuration of a simulation; nil leaves it as it is.
type configured func(*Config)

// unlimited lets everything in, and still refuses what cannot meet its deadline.
func unlimited(cfg *Config) { cfg.Limits.MinConcurrency = cfg.Limits.MaxConcurrency }

// disabled refuses nothing.
func disabled(cfg *Config) { cfg.Limits.Enabled = false }

func newSim(t testing.TB, change configured) *sim {
	cfg := Config{Limits: DefaultLimits(), Tables: map[string]SLO{shop: slo}}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	return &sim{t: t, controller: c, rng: rand.New(rand.NewPCG(1, 2)), begin: time.Now()}
}

func (s *sim) after(d time.Duration, do func()) { heap.Push(&s.events, event{time.Now().Add(d), do}) }

// run lets the callers ask for so long, and waits for what is in-flight.
func (s *sim) run(length time.Duration, callers ...caller) []done {
	end := time.Now().Add(length)
	for _, c := range callers {
		if c.rate != nil {
			s.next(c, end)
		}
		for range c.loops {
			s.after(time.Duration(s.rng.Int64N(int64(10*time.Millisecond))), func() { s.loop(c, end) })
		}
	}
	for s.events.Len() > 0 {
		e := heap.Pop(&s.events).(event)
		time.Sleep(time.Until(e.at))
		e.do()
	}
	return s.done
}

func (s *sim) next(c caller, end time.Time) {
	rate := c.rate(time.Since(s.begin))
	if rate <= 0 {
		rate = 0.001
	}
	gap := time.Duration(s.rng.ExpFloat64() / rate * float64(time.Second))
	if time.Now().Add(gap).After(end) {
		return
	}
	s.after(gap, func() {
		s.lookup(c, func(bool) {})
		s.next(c, end)
	})
}

func (s *sim) loop(c caller, end time.Time) {
	if time.Now().After(end) {
		return
	}
	s.lookup(c, func(shed bool) {
		if shed {
			s.after(simBackoff, func() { s.loop(c, end) })
		} else {
			s.loop(c, end)
		}
	})
}

func (s *sim) lookup(c caller, then func(shed bool)) {
	now := time.Now()
	deadline := c.deadline
	if deadline == 0 {
		deadline = simDeadline
	}
	d := done{who: c.who.Name, at: now.Sub(s.begin)}
	permit, err := s.controller.Admit(Ask{Client: c.who, Table: shop, Keys: c.keys, Deadline: now.Add(deadline)})
	if err != nil {
		d.shed = true
		s.done = append(s.done, d)
		then(true)
		return
	}
	took, refused := s.serve(c.keys)
	took += s.floor
	if s.tail > 0 {
		took += time.Duration(s.rng.ExpFloat64() * float64(s.tail))
	}
	switch {
	case refused == c.keys:
		took = time.Millisecond
	case took > deadline:
		took = deadline
	default:
		d.answered = refused == 0
		d.ok = d.answered && took <= slo.Target
	}
	s.after(took, func() {
		o := Outcome{Answered: c.keys - refused, Late: refused}
		if !d.answered && refused == 0 {
			o = Outcome{Late: c.keys}
		}
		permit.Release(o)
		d.took = took
		s.done = append(s.done, d)
		then(false)
	})
}

// serve puts the groups of a lookup into the queues of the hosts, the shorter
// ones of some, and returns when the last is done.
func (s *sim) serve(keys int) (last time.Duration, refused int) {
	now := time.Now()
	slow := max(s.slow, 1)
	hosts := s.rng.Perm(simHosts)[:simGroups+1]
	slices.SortStableFunc(hosts, func(a, b int) int { return s.free[a].Compare(s.free[b]) })
	groups := min(simGroups, keys)
	for g := range groups {
		h := hosts[g]
		n := keys*(g+1)/groups - keys*g/groups
		work := float64(simFixed) + float64(n)*float64(simPerKey)
		if float64(s.free[h].Sub(now)) > simQueue*float64(simPerKey)*slow {
			refused += n
			continue
		}
		work *= slow * (0.5 + 0.5*s.rng.ExpFloat64())
		if s.free[h].Before(now) {
			s.free[h] = now
		}
		s.free[h] = s.work(h, time.Duration(work))
		last = max(last, s.free[h].Sub(now))
	}
	return last, refused
}

// slowFor makes lookups take longer for a while.
func (s *sim) slowFor(from, length, floor time.Duration) {
	usual := s.floor
	s.after(from, func() { s.floor = floor })
	s.after(from+length, func() { s.floor = usual })
}

// capacity is how many lookups of so many keys the cluster can do in a second.
func capacity(keys int) float64 {
	work := simGroups*simFixed + time.Duration(keys)*simPerKey
	return simHosts / work.Seconds()
}

// between are the lookups asked in an interval.
func between(all []done, from, to time.Duration) []done {
	var out []done
	for _, d := range all {
		if from <= d.at && d.at < to {
			out = append(out, d)
		}
	}
	return out
}

func of(all []done, who string) []done {
	return slices.DeleteFunc(slices.Clone(all), func(d done) bool { return d.who != who })
}

// count returns how many lookups were in time, and how many were refused.
func count(all []done) (good, shed int) {
	for _, d := range all {
		if d.ok {
			good++
		}
		if d.shed {
			shed++
		}
	}
	return good, shed
}

// admitted is the share in time of those that were not refused.
func admitted(all []done) float64 {
	good, shed := count(all)
	return float64(good) / float64(max(len(all)-shed, 1))
}

// inSLA is the share of lookups that were answered in time.
func inSLA(all []done) float64 {
	good, _ := count(all)
	return float64(good) / float64(max(len(all), 1))
}

// peaks are the results of peak, which are always the same.
var peaks = map[int]float64{}

// peak is the best goodput that the cluster has shown without a controller, in
// lookups a second.
func peak(t *testing.T, keys int) float64 {
	best := peaks[keys]
	if best > 0 {
		return best
	}
	for _, load := range []float64{0.8, 0.9, 0.95} {
		s := newSim(t, disabled)
		good, _ := count(s.run(20*time.Second, caller{who: identity.Anonymous, rate: steady(load * capacity(keys)), keys: keys}))
		best = max(best, float64(good)/20)
	}
	peaks[keys] = best
	return best
}
