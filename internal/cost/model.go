package cost

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/executor"
)

const (
	// window is of how many reads a model is made, and refit how many of them are new in
	// each. Half a window told a/b to 7 where it was 2.7, a whole one to 3.1.
	window, refit = 1024, 64
	// gap is the time between two reads that are learned from. A pause of a host, or a
	// burst, is then no more than its part of the window, which lasts 10 s or longer.
	gap = 10 * time.Millisecond
	// straggler is how many times slower than the median a read counts at most: a read from
	// the disk counts, a pause hardly does.
	straggler = 4
	// priorRatio is what a statement costs, in keys, until reads of different sizes tell: six
	// real nodes spent 0.22 ms of CPU on a statement and 0.035 ms on a key. mostRatio is what
	// it costs at most; the same nodes took 20 to 27 times as long for it.
	priorRatio, mostRatio = 6, 100
	// keep is how many times too large or too small a size may be that stays in use: where
	// 52 keys were right, 1,024 reads told 41 to 68.
	keep = 1.5
	// statements is how many times what its statement takes the keys of a group may take,
	// whatever its budget: two thirds of the work are then keys. Load makes a statement and
	// its keys slower alike, so that this size stays when no group is within the budget.
	statements = 2
	// usualSize is what the planner chooses for 50 keys by their number. Where it takes more
	// than the budget, other sizes are used only from enter times as many keys, by a whole
	// window: of nodes that pause and limp, 1,024 reads told a/b to 3.1 where it was 2.7, and
	// 256 to 9.6.
	usualSize, enter = 10, 2
	// together is how many reads of a host, one after the other, are taken to be of the same
	// pace: enough for sizes to differ, and at 10 ms a read short beside the limping of a host.
	together = 10
	// reach is how many times larger than any read learned from a group may be.
	reach = 2
)

// read is one read that was answered.
type read struct {
	host string
	keys int
	took time.Duration
}

// model is what the reads of one kind cost.
type model struct {
	// budget returns how long a group may take.
	budget func() time.Duration
	size   atomic.Pointer[executor.GroupSize]

	// nextAt is when the next read may be learned from, as a time.Duration.
	nextAt atomic.Int64

	mu sync.Mutex
	// reads are the last ones learned from; the next is at count % window.
	reads [window]read
	count int
	// statement and key are the costs in seconds.
	statement, key float64
}

func (m *model) groupSize() executor.GroupSize {
	if s := m.size.Load(); s != nil {
		return *s
	}
	return executor.GroupSize{}
}

// learned is how many reads the model has learned from.
func (m *model) learned() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// wants reports whether to learn from a read that is sent at a moment, when so many others
// are in flight at its host. It is decided then, or the fast would be learned from first.
func (m *model) wants(met int, now time.Duration) bool {
	next := m.nextAt.Load()
	return met == 0 && int64(now) >= next && m.nextAt.CompareAndSwap(next, int64(now+gap))
}

// learn takes a read that has ended. One that was abandoned took at least so long: it counts
// only if that is more than was to be expected.
func (m *model) learn(r read, abandoned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if abandoned && (m.key <= 0 || r.took.Seconds() < m.predict(r.keys)) {
		return
	}
	m.reads[m.count%window] = r
	if m.count++; m.count%refit > 0 {
		return
	}
	reads := m.reads[:min(m.count, window)]
	m.fit(reads)
	m.choose(reads)
}

func (m *model) predict(keys int) float64 { return m.statement + m.key*float64(keys) }

// fit sets the costs to the line through the reads, by least squares of relative errors.
// What is slower than the median by more than straggler counts as that. The ratio of the fit
// before weighs as much as one read, so that it stays while all reads have the same size.
func (m *model) fit(reads []read) {
	if m.key <= 0 {
		m.statement, m.key = priorRatio, 1 // the unit does not matter to ratios
	}
	ratio := m.statement / m.key
	ratios := make([]float64, len(reads))
	for i, r := range reads {
		ratios[i] = r.took.Seconds() / m.predict(r.keys)
	}
	slices.Sort(ratios)
	most := straggler * ratios[len(ratios)/2]
	pace := paceOf(reads, most, m.predict)
	var w, wn, wnn, wt, wnt float64
	for i, r := range reads {
		n := float64(r.keys)
		t := min(r.took.Seconds(), most*m.predict(r.keys)) / pace[i]
		weight := 1 / ((priorRatio + n) * (priorRatio + n))
		w += weight
		wn += weight * n
		wnn += weight * n * n
		wt += weight * t
		wnt += weight * n * t
	}
	prior := w / float64(len(reads))
	aa, ab, bb := w+prior, wn-prior*ratio, wnn+prior*ratio*ratio
	det := aa*bb - ab*ab
	m.statement, m.key = (wt*bb-wnt*ab)/det, (wnt*aa-wt*ab)/det
	if m.statement < 0 {
		m.statement, m.key = 0, wnt/wnn
	}
	if least := wt / w / mostRatio; m.key < least {
		m.statement, m.key = wt/w, least
	}
}

// paceOf returns how slow the host of each read was around that time, relative to the mean of
// all reads: a slow host is given fewer keys, so that its small reads would be taken for what
// a statement costs.
func paceOf(reads []read, most float64, predict func(int) float64) []float64 {
	type spell struct{ sum, reads float64 }
	last, all := make(map[string]*spell), new(spell)
	of, pace := make([]*spell, len(reads)), make([]float64, len(reads))
	for i, r := range reads {
		s := last[r.host]
		if s == nil || s.reads >= together {
			s = new(spell)
			last[r.host] = s
		}
		of[i] = s
		for _, s := range []*spell{s, all} {
			s.sum += min(r.took.Seconds()/predict(r.keys), most)
			s.reads++
		}
	}
	for i, s := range of {
		pace[i] = s.sum / s.reads * all.reads / all.sum
	}
	return pace
}

// choose sets the size of groups, by the reads that the costs come from.
func (m *model) choose(reads []read) {
	largest := 0
	for _, r := range reads {
		largest = max(largest, r.keys)
	}
	budget := m.budget().Seconds()
	size := min(max(budget-m.statement, statements*m.statement)/m.key, float64(reach*largest))
	inUse := float64(m.groupSize().Keys)
	least := float64(enter * usualSize)
	if inUse > 0 {
		least /= keep
	}
	switch {
	case m.predict(usualSize) > budget && (size < least || len(reads) < window):
		size = 0
	case size < inUse*keep && size > inUse/keep:
		size = inUse
	}
	m.size.Store(&executor.GroupSize{
		Keys: int(math.Round(size)), StatementCost: seconds(m.statement), KeyCost: seconds(m.key),
	})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
