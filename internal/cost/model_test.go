package cost

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/executor"
)

const ms = time.Millisecond

// table is what reads of a table really take.
type table struct {
	statement, key time.Duration
	// spread is the sigma of the lognormal factor of a read. A share of the reads, stragglers,
	// takes 20 times as long besides.
	spread, stragglers float64
	rng                *rand.Rand
}

func newTable(statement, key time.Duration) *table {
	return &table{statement: statement, key: key, spread: 0.4, stragglers: 0.02, rng: rand.New(rand.NewPCG(1, 2))}
}

func (t *table) read(keys int) read {
	factor := math.Exp(t.spread*t.rng.NormFloat64() - t.spread*t.spread/2)
	if t.rng.Float64() < t.stragglers {
		factor *= 20
	}
	return read{keys: keys, took: time.Duration(factor * float64(t.statement+time.Duration(keys)*t.key))}
}

func newModel(budget time.Duration) *model {
	return &model{budget: func() time.Duration { return budget }}
}

// feed has a model learn from reads of the table of from to most keys.
func (t *table) feed(m *model, reads, from, most int) {
	for range reads {
		m.learn(t.read(from+t.rng.IntN(most-from+1)), false)
	}
}

// The budget of a table without settings.
const usualBudget = 1875 * time.Microsecond

func TestCostsAndSizeAreLearned(t *testing.T) {
	for name, c := range map[string]struct {
		statement, key time.Duration
		from, most     int
		want           int
	}{
		"keys of a pausing node are left to the planner": {700 * time.Microsecond, 287 * time.Microsecond, 3, 12, 0},
		"and so are expensive keys":                      {700 * time.Microsecond, time.Millisecond, 1, 10, 0},
		"cheap keys make large groups":                   {700 * time.Microsecond, 50 * time.Microsecond, 15, 50, 42},
		"very cheap ones fill the budget":                {200 * time.Microsecond, 50 * time.Microsecond, 15, 50, 37},
		"keys may take what three slow statements do":    {10 * ms, 400 * time.Microsecond, 3, 25, 50},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(usualBudget)
			newTable(c.statement, c.key).feed(m, 4*window, c.from, c.most)
			got := m.groupSize()
			assert.InDelta(t, c.want, got.Keys, (keep-1)*float64(c.want), "%v", got)
			middle := (c.from + c.most) / 2
			assert.InEpsilon(t, (c.statement + time.Duration(middle)*c.key).Seconds(), m.predict(middle), 0.2, "%v", got)
		})
	}
}

func TestNothingIsSaidOfFewReads(t *testing.T) {
	m := newModel(4 * ms)
	newTable(ms, ms).feed(m, refit-1, 1, 10)
	assert.Equal(t, executor.GroupSize{Keys: firstSize}, m.groupSize())
	newTable(ms, ms).feed(m, 1, 1, 10)
	assert.NotEqual(t, executor.GroupSize{Keys: firstSize}, m.groupSize())
}

// Few reads leave groups of the first size as they are, unless these are slow.
func TestFewReadsEndTheFirstSizeOnlyWhereItIsSlow(t *testing.T) {
	for name, c := range map[string]struct {
		statement, key time.Duration
		want           func(t assert.TestingT, keys int)
	}{
		"cheap keys":     {2 * ms, 50 * time.Microsecond, func(t assert.TestingT, keys int) { assert.GreaterOrEqual(t, keys, firstSize) }},
		"expensive keys": {700 * time.Microsecond, time.Millisecond, func(t assert.TestingT, keys int) { assert.Zero(t, keys) }},
		"keys of a pausing node": {700 * time.Microsecond, 200 * time.Microsecond,
			func(t assert.TestingT, keys int) { assert.Zero(t, keys) }},
	} {
		t.Run(name, func(t *testing.T) {
			m, of := newModel(usualBudget), newTable(c.statement, c.key)
			for range 2 * window / refit {
				of.feed(m, refit, 17, 25)
				c.want(t, m.groupSize().Keys)
			}
		})
	}
}

// Nodes that have just been started are slow whatever their keys cost.
func TestSizesOfSlowKeysAreProvisionalUntilTheirCostIsCertain(t *testing.T) {
	// serve returns the reads it took until groups are large again, or a whole window.
	serve := func(of *table, explores bool) (reads int) {
		m := newModel(usualBudget)
		of.feed(m, refit, 17, 25)
		assert.Zero(t, m.groupSize().Keys, "they are slow")
		assert.True(t, m.provisional.Load())
		for reads = refit; reads < window-refit && m.groupSize().Keys == 0 && m.provisional.Load(); reads++ {
			if explores && m.planned(0).Keys == firstSize {
				of.feed(m, 1, 17, 25)
			} else {
				of.feed(m, 1, 10, 10)
			}
		}
		return reads
	}
	assert.Less(t, serve(newTable(8*ms, 80*time.Microsecond), true), window-refit)
	assert.GreaterOrEqual(t, serve(newTable(8*ms, 80*time.Microsecond), false), window-refit, "control: reads of one size tell nothing")
	assert.Less(t, serve(newTable(700*time.Microsecond, time.Millisecond), true), window-refit, "the size for expensive keys is no longer provisional")
	m := newModel(usualBudget)
	newTable(700*time.Microsecond, time.Millisecond).feed(m, window, 1, 25)
	assert.Zero(t, m.planned(time.Hour).Keys, "what is certain stays")
	assert.False(t, m.provisional.Load())
}

// A load that keeps all hosts busy teaches nothing, and small groups make such a load.
func TestAProvisionalSizeEndsWhenNothingMoreIsLearned(t *testing.T) {
	m, of := newModel(usualBudget), newTable(8*ms, 80*time.Microsecond)
	learn := func(now time.Duration) {
		assert.True(t, m.wants(0, now))
		of.feed(m, refit, 10, 10)
	}
	of.feed(m, refit, 17, 25)
	for _, now := range []time.Duration{time.Second, time.Minute} {
		learn(now)
		assert.True(t, m.provisional.Load())
		assert.Zero(t, m.planned(now+provisionalFor).Keys, "until then groups are small")
		assert.Equal(t, firstSize, m.planned(now+provisionalFor+ms+gap).Keys)
	}
}

// Reads of one size do not make the model forget what a statement costs, even if they are slow.
func TestReadsOfOneSizeKeepTheRatio(t *testing.T) {
	m := newModel(usualBudget)
	newTable(ms, 40*time.Microsecond).feed(m, 2*window, 5, 50)
	before := m.groupSize().Keys
	newTable(10*ms, 400*time.Microsecond).feed(m, 4*window, 25, 25)
	assert.InEpsilon(t, before, m.groupSize().Keys, keep-1)

	control := newModel(usualBudget)
	newTable(10*ms, 400*time.Microsecond).feed(control, 4*window, 25, 25)
	assert.Zero(t, control.groupSize().Keys, "control: nothing was known before")
}

// A slow host is asked for few keys, as the planner levels groups by time.
func TestSlowHostsAreNotTakenForDearStatements(t *testing.T) {
	serve := func(slow string) float64 {
		m := newModel(usualBudget)
		usual, limping := newTable(700*time.Microsecond, 260*time.Microsecond), newTable(2100*time.Microsecond, 780*time.Microsecond)
		for i := range 4 * window {
			if i/100%3 == 0 {
				r := limping.read(1 + i%3)
				r.host = slow
				m.learn(r, false)
				continue
			}
			m.learn(usual.read(9+i%3), false)
		}
		return m.statement / m.key
	}
	assert.Less(t, serve("slow"), 4.0)
	assert.Greater(t, serve(""), 6.0, "control: all are taken for one host")
}

func TestATableGoesToTheDiskAndBack(t *testing.T) {
	m, memory, disk := newModel(usualBudget), newTable(ms, 40*time.Microsecond), newTable(ms, time.Millisecond)
	memory.feed(m, window, 5, 50)
	assert.Greater(t, m.groupSize().Keys, 30)
	disk.feed(m, window, 5, 50)
	assert.Zero(t, m.groupSize().Keys)
	memory.feed(m, 2*window, 3, usualSize)
	assert.GreaterOrEqual(t, m.groupSize().Keys, 2*usualSize, "groups grow again")
	memory.feed(m, 2*window, 5, 25)
	assert.Greater(t, m.groupSize().Keys, 30)
}

// A processor that is shared makes statements and keys slower alike.
func TestSizesDoNotFollowTheLoad(t *testing.T) {
	// serve has every other two windows be of the busy table.
	serve := func(busy *table) (least, changes int) {
		m, idle := newModel(usualBudget), newTable(ms, 40*time.Microsecond)
		idle.feed(m, window, 5, 50)
		before := m.groupSize().Keys
		last := before
		least = before
		for i := range 20 * window {
			of := idle
			if i/(2*window)%2 == 0 {
				of = busy
			}
			of.feed(m, 1, 5, 50)
			if s := m.groupSize().Keys; s != last {
				last, changes = s, changes+1
			}
			least = min(least, m.groupSize().Keys)
		}
		return 100 * least / before, changes
	}
	least, changes := serve(newTable(10*ms, 400*time.Microsecond))
	assert.GreaterOrEqual(t, least, 66)
	assert.LessOrEqual(t, changes, 4)
	least, changes = serve(newTable(ms, 400*time.Microsecond))
	assert.Zero(t, least, "control: keys alone get more expensive")
	assert.Greater(t, changes, 10, "control: keys alone get more expensive")
}

func TestAbandonedReadsCountAsAtLeast(t *testing.T) {
	m := newModel(usualBudget)
	newTable(ms, 40*time.Microsecond).feed(m, window, 5, 50)
	count := m.count
	assert.NotZero(t, m.groupSize().Keys)
	for range window {
		m.learn(read{keys: 30, took: 500 * time.Microsecond}, true)
	}
	assert.Equal(t, count, m.count, "less than was to be expected")
	for range window {
		m.learn(read{keys: 30, took: 100 * ms}, true)
	}
	assert.Greater(t, m.predict(30), 0.08)
}

// A table that is slower than its deadline answers nothing that could be learned from.
func TestATableThatIsAlwaysAbandonedIsLeftToThePlanner(t *testing.T) {
	m := newModel(usualBudget)
	for range refit {
		m.learn(read{keys: firstSize, took: 2 * ms}, true)
	}
	assert.Equal(t, executor.GroupSize{Keys: firstSize}, m.groupSize(), "they were abandoned before they were slow")
	for range refit {
		m.learn(read{keys: firstSize, took: 125 * ms}, true)
	}
	assert.Zero(t, m.groupSize().Keys)
}

// There is a model for each table, shape and level, most of which are hardly read.
func TestAModelIsNoLargerThanWhatItHasLearned(t *testing.T) {
	m := newModel(usualBudget)
	of := newTable(ms, ms)
	of.feed(m, 1, 1, 10)
	assert.Less(t, uintptr(cap(m.reads))*unsafe.Sizeof(read{})+unsafe.Sizeof(*m), uintptr(1024))
	of.feed(m, 2*window, 1, 10)
	assert.Len(t, m.reads, window)
}

func TestOneReadInAGapIsWanted(t *testing.T) {
	m := new(model)
	assert.True(t, m.wants(0, 0))
	assert.False(t, m.wants(0, gap-1))
	assert.False(t, m.wants(1, gap), "it meets another")
	assert.True(t, m.wants(0, gap))
	assert.False(t, m.wants(3, time.Hour))
}
