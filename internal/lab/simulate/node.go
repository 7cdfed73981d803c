package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// nodeModel describes how a simulated Cassandra node works: the read threads of a small node, each
// of which reads the keys of its sub-query one after the other.
type nodeModel struct {
	// threads is the number of read threads. They serve one queue, first in, first out.
	threads int
	// fixed is the work of a sub-query apart from its keys; key and spread are the median and the
	// sigma of the lognormal work of a key.
	fixed, key time.Duration
	spread     float64
	// miss is the share of keys that are not in memory, and missTime the mean of the additional
	// exponential time that the disk takes for them.
	miss     float64
	missTime time.Duration
	// wire is the network delay in each direction.
	wire time.Duration
	// trouble describes the pauses and limps of the node.
	trouble troubles
}

// troubles describes the pauses and limps of a node. The time from the end of one to the beginning
// of the next of its kind is exponential.
type troubles struct {
	// pauseGap is the mean time to a pause, in which no thread works; pause and pauseSpread are the
	// median and sigma of its lognormal length, and pauseMost is its maximum.
	pauseGap, pause, pauseMost time.Duration
	pauseSpread                float64
	// limpGap is the mean time to a limp. Its length is exponential with mean limp, and meanwhile all
	// work takes limpFactor times as long.
	limpGap, limp time.Duration
	limpFactor    float64
}

// smallNode is the model of the pause experiment. Nodes have garbage collections of some 60 ms
// every ten seconds, and once in 100 seconds do everything ten times slower for some two.
func smallNode() nodeModel {
	return nodeModel{
		threads: 4, fixed: 200 * time.Microsecond, key: 200 * time.Microsecond, spread: 0.5,
		miss: 0.01, missTime: 6 * time.Millisecond, wire: 250 * time.Microsecond,
		trouble: troubles{
			pauseGap: 10 * time.Second, pause: 60 * time.Millisecond, pauseSpread: 0.6, pauseMost: 400 * time.Millisecond,
			limpGap: 100 * time.Second, limp: 2 * time.Second, limpFactor: 10,
		},
	}
}

// KeyCost describes what reading the keys of a table costs a node.
type KeyCost struct {
	// Name is the name of the table in reports.
	Name string
	// Key is the median work of a key in memory, and Miss the share of keys that are not in memory.
	Key  time.Duration
	Miss float64
}

// with returns the model with a table of such keys; the zero KeyCost changes nothing.
func (m nodeModel) with(k KeyCost) nodeModel {
	if k.Key > 0 {
		m.key, m.miss = k.Key, k.Miss
	}
	return m
}

// keyTime returns the mean work of a key.
func (m nodeModel) keyTime() time.Duration {
	median := float64(m.key) * math.Exp(m.spread*m.spread/2)
	return time.Duration(median + m.miss*float64(m.missTime))
}

// rate returns the lookups per second that use this share of the threads of a healthy cluster, when
// a lookup has this many keys and sub-queries.
func (m nodeModel) rate(load float64, nodes, keys int, subQueries float64) float64 {
	work := float64(keys)*m.keyTime().Seconds() + subQueries*m.fixed.Seconds()
	return load * float64(nodes*m.threads) / work
}

// stretch is a period of constant speed: 1 is healthy, 0 is paused.
type stretch struct {
	from  time.Duration
	speed float64
}

// stretches draws the troubles of a node that begin before a moment.
func (t troubles) stretches(until time.Duration, rng *rand.Rand) []stretch {
	pauses := episodes(until, t.pauseGap, rng, func() time.Duration {
		return min(t.pauseMost, time.Duration(float64(t.pause)*math.Exp(t.pauseSpread*rng.NormFloat64())))
	})
	limps := episodes(until, t.limpGap, rng, func() time.Duration {
		return time.Duration(float64(t.limp) * rng.ExpFloat64())
	})
	edges := []time.Duration{0}
	for _, e := range append(slices.Clone(pauses), limps...) {
		edges = append(edges, e.from, e.to)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	out := make([]stretch, 0, len(edges))
	for _, at := range edges {
		speed := 1.0
		if within(limps, at) {
			speed = 1 / t.limpFactor
		}
		if within(pauses, at) {
			speed = 0
		}
		out = append(out, stretch{at, speed})
	}
	return out
}

type episode struct{ from, to time.Duration }

func episodes(until, gap time.Duration, rng *rand.Rand, length func() time.Duration) []episode {
	var out []episode
	next := func(from time.Duration) time.Duration { return from + time.Duration(rng.ExpFloat64()*float64(gap)) }
	for at := next(0); at < until; {
		e := episode{at, at + length()}
		out = append(out, e)
		at = next(e.to)
	}
	return out
}

// within reports whether a moment lies in one of these episodes, which are in order and do not
// overlap.
func within(all []episode, at time.Duration) bool {
	i, found := slices.BinarySearchFunc(all, at, func(e episode, t time.Duration) int { return int(e.from - t) })
	return found || i > 0 && at < all[i-1].to
}

// node is the queue of one node in virtual time.
type node struct {
	model nodeModel
	// free is when each thread will have finished the work assigned to it.
	free    []time.Duration
	speeds  []stretch
	current int
	works   []time.Duration
	salt    uint64
}

// drawn is the number of draws from which the work of keys is chosen.
const drawn = 1 << 16

// newNodes returns a serving function for each node of this model. It draws their troubles until a
// moment.
func (m nodeModel) newNodes(ids []string, until time.Duration, rng *rand.Rand) map[string]serving {
	works := make([]time.Duration, drawn)
	for i := range works {
		works[i] = time.Duration(float64(m.key) * math.Exp(m.spread*rng.NormFloat64()))
		if rng.Float64() < m.miss {
			works[i] += time.Duration(float64(m.missTime) * rng.ExpFloat64())
		}
	}
	out := make(map[string]serving, len(ids))
	for _, id := range ids {
		n := &node{model: m, free: make([]time.Duration, m.threads), speeds: m.trouble.stretches(until, rng), works: works, salt: rng.Uint64()}
		out[id] = n.serve
	}
	return out
}

// serve queues a sub-query and returns when its answer arrives. The work of a key follows from the
// key and the node alone, not from the order in which goroutines run.
func (n *node) serve(sent time.Duration, keys []uint64) time.Duration {
	work := n.model.fixed
	for _, k := range keys {
		work += n.works[mix(k^n.salt)%drawn]
	}
	thread := 0
	for i, t := range n.free {
		if t < n.free[thread] {
			thread = i
		}
	}
	n.free[thread] = n.done(max(n.free[thread], sent+n.model.wire), work)
	return n.free[thread] + n.model.wire
}

// done returns when work that begins at a moment is finished. Moments must not decrease, which the
// queue ensures, since it is first in, first out.
func (n *node) done(at, work time.Duration) time.Duration {
	for n.current+1 < len(n.speeds) && n.speeds[n.current+1].from <= at {
		n.current++
	}
	left := float64(work)
	for i := n.current; ; i++ {
		speed := n.speeds[i].speed
		if i+1 == len(n.speeds) {
			return at + time.Duration(left/speed)
		}
		here := float64(n.speeds[i+1].from-at) * speed
		if here >= left {
			return at + time.Duration(left/speed)
		}
		left -= here
		at = n.speeds[i+1].from
	}
}

// mix scrambles the bits of a number (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
