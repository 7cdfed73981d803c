package cassandra

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// apart asks again for the keys of a part that the host has refused with an error, for too few
// live replicas: that is so of one key at least, and of all that have its replicas. Keys with the
// same replicas stay together. The error is that of a part which has no others.
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

// byReplicas returns the keys of a part in an order in which those that have the same replicas are
// a span, and these spans. Without a ring each key is one.
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
