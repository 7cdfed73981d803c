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
	// window is the number of reads that a model is fitted to, and refit that of new ones after
	// which it is fitted again. Half a window estimated a/b, the cost of a statement in keys, at
	// up to 7 where it was 2.7, a whole one at up to 3.1.
	window, refit = 1024, 64
	// gap is the least time between two reads that are learned from. A window then lasts 10 s
	// or longer, and a pause of a host or a burst fills no more of it than of that time.
	gap = 10 * time.Millisecond
	// straggler is how many times slower than the median a read counts at most, so that a read
	// from disk counts and a pause hardly does.
	straggler = 4
	// priorRatio is what a statement is assumed to cost, in keys, until reads of different sizes
	// show it: six real nodes spent 0.22 ms of CPU on a statement and 0.035 ms on a key.
	// mostRatio is the most that is believed; by time, a statement of the same nodes cost 20 to
	// 27 keys.
	priorRatio, mostRatio = 6, 100
	// keep is by what factor a size in use may be wrong before it is changed: where 52 keys were
	// right, 1,024 reads suggested 41 to 68.
	keep = 1.5
	// The keys of a group may take statements times as long as its statement, whatever its
	// budget: three quarters of the work are then keys. Load makes a statement and its keys
	// slower alike, so that this size stays when no group is within the budget.
	statements = 3
	// usualSize is the group that the planner chooses for 50 keys by their number. If it exceeds
	// the budget, other sizes are used only from enter times as many keys. Whether they reach
	// that is decided by a whole window, or as soon as sure standard errors make no difference:
	// for nodes that pause and limp, 1,024 reads estimated a/b at up to 3.1 where it was 2.7, and
	// 256 at 9.6.
	usualSize, enter, sure = 10, 2, 2
	// firstSize is the size until costs are learned: 50 keys are then two or three statements. It
	// ends with the first fit if a group of it takes more than slow budgets, a third of the hedge
	// delay.
	firstSize, slow = 25, 8.0 / 3
	// One plan in explore has groups of firstSize all the same until it is certain that they are
	// too large: reads of one size do not show what a key costs, and nodes may be slow because
	// they have just been started.
	explore = 8
	// provisionalFor is how long groups stay smaller because reads are slow, if that is not
	// certain and too little is learned to choose again: under load, small groups leave no host
	// alone, and nothing is learned.
	provisionalFor = 10 * time.Second
	// together is how many consecutive reads of a host are taken to have the same pace: enough
	// for sizes to differ and, at 10 ms a read, short compared with the limping of a host.
	together = 10
	// A group may be at most reach times as large as any read learned from.
	reach = 2
)

// read is one read that was answered or abandoned.
type read struct {
	host string
	keys int
	took time.Duration
}

// model learns what the reads of one kind cost.
type model struct {
	// budget returns how long a group may take.
	budget func() time.Duration
	size   atomic.Pointer[executor.GroupSize]

	// provisional is set while groups are smaller than firstSize because reads are slow, which
	// may not be due to their keys. plans counts the plans made meanwhile.
	provisional atomic.Bool
	plans       atomic.Uint32
	// chosenAt is when the size was chosen last, as a time.Duration since the Meter was made.
	chosenAt atomic.Int64

	// nextAt is when the next read may be learned from, as a time.Duration.
	nextAt atomic.Int64

	mu sync.Mutex
	// reads are the last ones learned from, up to window. The oldest of a whole window is at
	// count % window.
	reads []read
	count int
	// statement and key are the costs in seconds.
	statement, key float64
	// keyError is the standard error of key, infinite while sizes are equal. middle is the number
	// of keys of which the time is known best: if a key costs more than estimated, a statement
	// costs less by middle times as much.
	keyError, middle float64
}

func (m *model) groupSize() executor.GroupSize {
	if s := m.size.Load(); s != nil {
		return *s
	}
	return executor.GroupSize{Keys: firstSize}
}

// planned returns the size for the groups of one plan that is made now.
func (m *model) planned(now time.Duration) executor.GroupSize {
	size := m.groupSize()
	if !m.provisional.Load() {
		return size
	}
	if m.ended(now) || m.plans.Add(1)%explore == 0 {
		size.Keys = firstSize
	}
	return size
}

// ended reports whether a provisional size has ended, as it was not chosen again in time.
func (m *model) ended(now time.Duration) bool {
	return now-time.Duration(m.chosenAt.Load()) > provisionalFor
}

// certain returns the size, but nothing of a provisional one.
func (m *model) certain(now time.Duration) executor.GroupSize {
	switch {
	case !m.provisional.Load():
		return m.groupSize()
	case m.ended(now):
		return executor.GroupSize{Keys: firstSize}
	}
	return executor.GroupSize{}
}

// unknown reports whether nothing is known yet.
func (m *model) unknown() bool { return m.size.Load() == nil }

// learned is how many reads the model has learned from.
func (m *model) learned() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// wants reports whether to learn from a read that is sent now, with met others in-flight at its
// host. If that were decided at its end, the fast would be learned from first.
func (m *model) wants(met int, now time.Duration) bool {
	next := m.nextAt.Load()
	return met == 0 && int64(now) >= next && m.nextAt.CompareAndSwap(next, int64(now+gap))
}

// learn learns from a read that has ended. An abandoned one would have taken longer, so it counts
// only if it took more than expected or, while nothing is known, more than slow budgets.
func (m *model) learn(r read, abandoned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	least := slow * m.budget().Seconds()
	if m.key > 0 {
		least = m.predict(r.keys)
	}
	if abandoned && r.took.Seconds() < least {
		return
	}
	if len(m.reads) < window {
		m.reads = append(m.reads, r)
	} else {
		m.reads[m.count%window] = r
	}
	if m.count++; m.count%refit > 0 {
		return
	}
	m.fit(m.reads)
	m.choose(m.reads)
}

func (m *model) predict(keys int) float64 { return m.statement + m.key*float64(keys) }

// fit sets the costs to the line through the reads, by least squares of relative errors. A read
// that is slower than the median by more than straggler counts as slower by just that. The ratio
// of the previous fit weighs as much as one read, so that it stays while all reads have one size.
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
	pace, usual := paceOf(reads, most, m.predict)
	var w, wn, wnn, wt, wnt, within float64
	for i, r := range reads {
		n := float64(r.keys)
		t := min(r.took.Seconds(), most*m.predict(r.keys)) / pace[i]
		weight := 1 / ((priorRatio + n) * (priorRatio + n))
		w += weight
		wn += weight * n
		wnn += weight * n * n
		wt += weight * t
		wnt += weight * n * t
		within += weight * (n - usual[i]) * (n - usual[i])
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
	var residuals float64
	for i, r := range reads {
		n := float64(r.keys)
		d := min(r.took.Seconds(), most*m.predict(r.keys))/pace[i] - m.predict(r.keys)
		residuals += d * d / ((priorRatio + n) * (priorRatio + n))
	}
	m.keyError = math.Sqrt(residuals / float64(len(reads)) / within)
	m.middle = wn / w
}

// paceOf returns how slow the host of each read was around that time, relative to the mean of all
// reads. A slow host is given fewer keys, so that its small reads would otherwise look like
// expensive statements. It also returns the mean number of keys of the host's reads around that
// time: only what a read has more or less shows the cost of a key.
func paceOf(reads []read, most float64, predict func(int) float64) (pace, usual []float64) {
	type spell struct{ sum, keys, reads float64 }
	last, all := make(map[string]*spell), new(spell)
	of := make([]*spell, len(reads))
	pace, usual = make([]float64, len(reads)), make([]float64, len(reads))
	for i, r := range reads {
		s := last[r.host]
		if s == nil || s.reads >= together {
			s = new(spell)
			last[r.host] = s
		}
		of[i] = s
		for _, s := range []*spell{s, all} {
			s.sum += min(r.took.Seconds()/predict(r.keys), most)
			s.keys += float64(r.keys)
			s.reads++
		}
	}
	for i, s := range of {
		pace[i], usual[i] = s.sum/s.reads*all.reads/all.sum, s.keys/s.reads
	}
	return pace, usual
}

// choose sets the size of groups by the costs that were fitted to reads.
func (m *model) choose(reads []read) {
	largest := 0
	for _, r := range reads {
		largest = max(largest, r.keys)
	}
	most := max(float64(reach*largest), firstSize)
	budget := m.budget().Seconds()
	size := min(m.sizeFor(m.key, budget), most)
	inUse := float64(m.groupSize().Keys)
	least := float64(enter * usualSize)
	if inUse > 0 && !m.unknown() {
		least /= keep
	}
	fits, whole := m.predict(usualSize) <= budget, len(reads) == window
	small := m.sizeFor(max(m.key-sure*m.keyError, 0), budget) < least
	large := m.sizeFor(m.key+sure*m.keyError, budget) >= least
	provisional := false
	switch {
	case !fits && (small || whole && size < least):
		size, provisional = 0, !small
	case small, large, whole, fits && inUse == 0:
	case m.unknown() && m.predict(firstSize) > slow*budget:
		size, provisional = 0, true
	default:
		size, provisional = inUse, m.provisional.Load()
	}
	m.provisional.Store(provisional)
	m.chosenAt.Store(m.nextAt.Load()) // when the last read was sent, close enough to now
	if inUse > 0 && size < inUse*keep && size > inUse/keep {
		size = inUse
	}
	m.size.Store(&executor.GroupSize{
		Keys: int(math.Round(size)), StatementCost: seconds(m.statement), KeyCost: seconds(m.key),
	})
}

// sizeFor returns how many keys a group may have if a key costs key seconds instead of m.key.
func (m *model) sizeFor(key, budget float64) float64 {
	if key <= 0 {
		return math.Inf(1)
	}
	statement := max(m.statement+(m.key-key)*m.middle, 0)
	return max(budget, statements*statement) / key
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
