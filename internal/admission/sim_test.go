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

const shop = "shop.products"

var promise = Promise{Target: 125 * time.Millisecond, Percentile: 95}

// A cluster in virtual time. Each host has a queue and one worker; a sub-query
// occupies it for a fixed time and a time for each key, both random. What was
// sent is done even when nobody waits for it any more, as CQL has no cancel.
const (
	simHosts    = 6
	simGroups   = 3
	simFixed    = 500 * time.Microsecond
	simPerKey   = 180 * time.Microsecond
	simDeadline = 125 * time.Millisecond
	// simQueue is the most keys that a host owes, as with the executor.
	simQueue = 1024
)

// caller is a client with a load: lookups of so many keys a second, Poisson.
type caller struct {
	who      *identity.Client
	rate     func(at time.Duration) float64
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
	// ok is in time, with all keys; shed was refused by admission.
	ok, shed bool
}

// sim is a proxy before a cluster.
type sim struct {
	t          *testing.T
	controller *Controller
	rng        *rand.Rand
	begin      time.Time
	free       [simHosts]time.Time
	events     events
	done       []done
	floor      time.Duration
	// slow is how many times longer than usual the hosts take; 0 is 1.
	slow float64
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

func newSim(t *testing.T, without safeguards) *sim {
	c, err := New(Config{Limits: DefaultLimits(), Tables: map[string]Promise{shop: promise}, without: without})
	require.NoError(t, err)
	return &sim{t: t, controller: c, rng: rand.New(rand.NewPCG(1, 2)), begin: time.Now()}
}

func (s *sim) after(d time.Duration, do func()) { heap.Push(&s.events, event{time.Now().Add(d), do}) }

// run lets the callers ask for so long, and waits for what is under way.
func (s *sim) run(length time.Duration, callers ...caller) []done {
	end := time.Now().Add(length)
	for _, c := range callers {
		s.next(c, end)
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
		s.lookup(c)
		s.next(c, end)
	})
}

func (s *sim) lookup(c caller) {
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
		return
	}
	took, refused := s.serve(c.keys)
	took += s.floor
	switch {
	case refused == c.keys:
		took = 0
	case took > deadline:
		took = deadline
		d.ok = false
	default:
		d.ok = refused == 0
	}
	s.after(took, func() {
		o := Outcome{Answered: c.keys - refused, Late: refused}
		if !d.ok && refused == 0 {
			o = Outcome{Late: c.keys}
		}
		permit.Release(o)
		d.took = took
		s.done = append(s.done, d)
	})
}

// serve puts the groups of a lookup into the queues of the hosts, the shorter
// ones of some, and returns when the last is done.
func (s *sim) serve(keys int) (last time.Duration, refused int) {
	now := time.Now()
	hosts := s.rng.Perm(simHosts)[:simGroups+1]
	slices.SortStableFunc(hosts, func(a, b int) int { return s.free[a].Compare(s.free[b]) })
	groups := min(simGroups, keys)
	for g := range groups {
		h := hosts[g]
		n := keys*(g+1)/groups - keys*g/groups
		work := float64(simFixed) + float64(n)*float64(simPerKey)
		if s.free[h].Sub(now) > simQueue*simPerKey {
			refused += n
			continue
		}
		work *= max(s.slow, 1) * (0.5 + 0.5*s.rng.ExpFloat64())
		if s.free[h].Before(now) {
			s.free[h] = now
		}
		s.free[h] = s.free[h].Add(time.Duration(work))
		last = max(last, s.free[h].Sub(now))
	}
	return last, refused
}

// standStill adds a pause to what every host has to do.
func (s *sim) standStill(pause time.Duration) {
	now := time.Now()
	for h, free := range s.free {
		if free.Before(now) {
			free = now
		}
		s.free[h] = free.Add(pause)
	}
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

// count tells the shares of lookups.
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

// p99 is of the lookups that were admitted.
func p99(all []done) time.Duration {
	var took []time.Duration
	for _, d := range all {
		if !d.shed {
			took = append(took, d.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
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
		s := newSim(t, safeguards{limit: true, need: true})
		good, _ := count(s.run(20*time.Second, caller{who: identity.Anonymous, rate: steady(load * capacity(keys)), keys: keys}))
		best = max(best, float64(good)/20)
	}
	peaks[keys] = best
	return best
}
