package cassandra

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// ringOf returns a ring of the given number of hosts, with 16 tokens each and three replicas.
func ringOf(t *testing.T, n int) *ring.Ring {
	t.Helper()
	topology := ring.Topology{Keyspaces: map[string]ring.Replication{"ks": {Strategy: ring.SimpleStrategy, Factor: 3}}}
	for i := range n {
		h := ring.Host{ID: strconv.Itoa(i), Addr: fmt.Sprint("10.0.0.", i+1), DC: "dc1", Rack: "r"}
		for v := range 16 {
			h.Tokens = append(h.Tokens, ring.Token(fmt.Append(nil, i, " ", v)))
		}
		topology.Hosts = append(topology.Hosts, h)
	}
	r, err := ring.New(topology)
	require.NoError(t, err)
	return r
}

// readAll reads 50 keys and returns whether each was found. One that was not is lost for too few
// replicas.
func readAll(t *testing.T, h *fakeHost, r *ring.Ring, keys []partition.Key) (found []bool, err error) {
	t.Helper()
	reading := h.reading(ask(h.table, "v"), &volume{}, &inLimits{}, nil, keys...)
	reading.Ring = r
	results, err := reading.run(t.Context())
	for _, res := range results {
		found = append(found, res.Status == partition.Found)
		if lost, ok := errors.AsType[*executor.ReadError](res.Err); ok {
			assert.Equal(t, executor.ReasonUnavailable, lost.Reason)
		}
	}
	return found, err
}

func TestAKeyWithTooFewReplicasCostsNoOther(t *testing.T) {
	table := keyed(false, cqltype.Text)
	keys, rows := make([]partition.Key, 50), map[string]int{}
	for i := range keys {
		keys[i] = textKey(t, fmt.Sprint("key ", i))
		rows[string(keys[i].Routing())] = 1
	}
	for name, test := range map[string]struct {
		hosts      int
		down       func(replicas []ring.HostIndex) bool
		statements int
	}{
		"two of six hosts are down": {6, func(replicas []ring.HostIndex) bool {
			return slices.Contains(replicas, 0) && slices.Contains(replicas, 1)
		}, 1 + 20},
		"all keys have the same replicas, of which two are down": {3, func([]ring.HostIndex) bool { return true }, 1},
		"a level that nothing is alive for":                      {6, func([]ring.HostIndex) bool { return true }, 1 + 20},
	} {
		t.Run(name, func(t *testing.T) {
			r := ringOf(t, test.hosts)
			placement, ok := r.Placement("ks")
			require.True(t, ok)
			h := &fakeHost{table: table, rows: rows, unavailable: map[string]bool{}}
			var want []bool
			for _, k := range keys {
				down := test.down(placement.Replicas(ring.Token(k.Routing())))
				h.unavailable[string(k.Routing())] = down
				want = append(want, !down)
			}
			found, err := readAll(t, h, r, keys)
			assert.LessOrEqual(t, len(h.statements), test.statements, "keys of the same replicas go together")
			if test.hosts == 3 {
				assert.Equal(t, executor.ReasonUnavailable, reasonOf(err))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, want, found)
		})
	}
	t.Run("a statement shared by two lookups, and no ring", func(t *testing.T) {
		h := &fakeHost{table: table, rows: rows, unavailable: map[string]bool{string(keys[2].Routing()): true}}
		found, err := readAll(t, h, nil, keys[:3])
		require.NoError(t, err)
		assert.Equal(t, []bool{true, true, false}, found)
		assert.Equal(t, []int{3, 1, 1, 1}, h.statements)
	})
}
