package ring

import (
	"iter"
	"math"
	"slices"
)

// Placement maps tokens to their replicas under one replication. Keyspaces of equal replication
// share one. It is immutable and safe for concurrent use.
type Placement struct {
	table *tokenTable
	hosts []Host
	// all and local are the replicas of each range; the same slice when every replica is local.
	all, local []span
	// later are the replicas of each range, for each datacenter of Ring.LaterDCs.
	later [][]span
	sets  []HostIndex
}

// span is a list of hosts within Placement.sets.
type span struct{ from, to uint32 }

// TokenRange is a range of tokens with its replicas.
type TokenRange struct {
	// Start is the token after which the range starts, End the last one in it.
	// The first range wraps: its Start is the largest token of the ring. With a
	// single token in the ring both are that token, and the range is everything.
	Start, End int64
	// Replicas are the replicas in ring order. They must not be modified.
	Replicas []HostIndex
}

// Len returns the number of token ranges: one for each token of the ring.
func (p *Placement) Len() int { return len(p.all) }

// Range returns the index of the range that contains a token, from 0 to Len()-1. Ranges are
// numbered in ascending order of their End.
func (p *Placement) Range(token int64) int32 { return p.table.search(token) }

// Replicas returns all replicas of a token in ring order, as nodetool
// getendpoints does; never empty. The caller must not modify them.
func (p *Placement) Replicas(token int64) []HostIndex {
	return p.set(p.all[p.table.search(token)])
}

// Local returns the replicas of a token that lie in the local datacenter, in ring
// order: all of them when the ring has no local datacenter, none when the
// replication leaves it out. The caller must not modify them.
func (p *Placement) Local(token int64) []HostIndex {
	return p.set(p.local[p.table.search(token)])
}

// LocalAt returns Local for the tokens of the range with the given index.
func (p *Placement) LocalAt(index int32) []HostIndex { return p.set(p.local[index]) }

// LaterAt returns the replicas of the range with the given index in one datacenter, given by its
// position in Ring.LaterDCs. They are in ring order; there are none when the replication leaves the
// datacenter out. The caller must not modify them.
func (p *Placement) LaterAt(index int32, datacenter int) []HostIndex {
	return p.set(p.later[datacenter][index])
}

// Ranges returns every token range in ascending order of its end.
func (p *Placement) Ranges() iter.Seq[TokenRange] {
	return func(yield func(TokenRange) bool) {
		for i, s := range p.all {
			if !yield(TokenRange{Start: p.table.start(i), End: p.table.tokens[i], Replicas: p.set(s)}) {
				return
			}
		}
	}
}

// set returns the hosts of a span, with no capacity to append into.
func (p *Placement) set(s span) []HostIndex { return p.sets[s.from:s.to:s.to] }

// newPlacement places every range. Its only error is ErrTooManyTokens.
func newPlacement(r *Ring, s strategy) (*Placement, error) {
	p := &Placement{table: r.table, hosts: r.hosts, all: make([]span, len(r.table.tokens))}
	b := setBuilder{known: make(map[uint64]span)}
	p.local = p.all
	isLocal, filter := r.locals()
	if filter {
		p.local = make([]span, len(p.all))
	}
	p.later = make([][]span, len(r.laterDCs))
	for d := range p.later {
		p.later[d] = make([]span, len(p.all))
	}
	var set, kept []HostIndex
	keep := func(is func(HostIndex) bool) span {
		kept = kept[:0]
		for _, h := range set {
			if is(h) {
				kept = append(kept, h)
			}
		}
		return b.add(kept)
	}
	r.table.eachRange(len(r.hosts), func(i int, w *walk) {
		set = s.place(w, set[:0])
		p.all[i] = b.add(set)
		if filter {
			p.local[i] = keep(func(h HostIndex) bool { return isLocal[h] })
		}
		for d, name := range r.laterDCs {
			p.later[d][i] = keep(func(h HostIndex) bool { return r.hosts[h].DC == name })
		}
	})
	if len(b.sets) > math.MaxUint32 {
		return nil, ErrTooManyTokens
	}
	p.sets = b.sets
	return p, nil
}

// setBuilder stores equal lists of hosts once: 256 vnodes on 3 hosts are 768 ranges but 6 lists.
type setBuilder struct {
	sets  []HostIndex
	known map[uint64]span // by hash
}

// add returns where a list is stored. Of two lists with the same hash only the later is found
// again, which is too rare to matter.
func (b *setBuilder) add(set []HostIndex) span {
	hash := uint64(14695981039346656037)
	for _, h := range set { // FNV-1a
		hash = (hash ^ uint64(h)) * 1099511628211
	}
	if s, ok := b.known[hash]; ok && slices.Equal(b.sets[s.from:s.to], set) {
		return s
	}
	s := span{from: uint32(len(b.sets)), to: uint32(len(b.sets) + len(set))}
	b.sets = append(b.sets, set...)
	b.known[hash] = s
	return s
}
