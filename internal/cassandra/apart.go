package cassandra

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// apart reads the keys of a part again after the host has refused all of them with err because some
// key has too few live replicas. Keys with the same replicas are affected alike, so each set of
// replicas becomes a part of its own. If there is only one set, apart returns err.
func (r *reading) apart(ctx context.Context, p span, err error) error {
	keys, sets := r.byReplicas(p)
	if len(sets) == 1 {
		return err
	}
	a := r.only(keys, len(keys))
	if err := a.each(ctx, sets, (*reading).part); err != nil {
		return err
	}
	for i, k := range keys {
		r.results[k] = a.results[i]
	}
	return nil
}

// byReplicas returns the keys of a part, ordered so that keys with the same replicas form a span,
// and these spans. Without a ring each key is a span of its own.
func (r *reading) byReplicas(p span) (keys []int, sets []span) {
	set := strconv.Itoa
	if r.Ring != nil {
		if placement, ok := r.Ring.Placement(r.table.Keyspace); ok {
			set = func(k int) string {
				replicas := placement.Replicas(ring.Token(r.Keys[k].Routing()))
				return fmt.Sprint(slices.Sorted(slices.Values(replicas)))
			}
		}
	}
	of := make(map[string][]int)
	for k := p.from; k < p.to; k++ {
		s := set(k)
		of[s] = append(of[s], k)
	}
	for _, same := range of {
		sets = append(sets, span{len(keys), len(keys) + len(same)})
		keys = append(keys, same...)
	}
	return keys, sets
}
