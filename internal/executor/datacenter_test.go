package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/underrace"
)

// newTwoRing returns a ring of two datacenters with hosts named a0, a1, … in dc1, the local
// one, and b0, b1, … in dc2.
func newTwoRing(t testing.TB, n, rf int) *ring.Ring {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	topology := ring.Topology{
		LocalDC: "dc1", LaterDCs: []string{"dc2", "dc3"},
		Keyspaces: map[string]ring.Replication{"ks": {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": rf, "dc2": rf}}},
	}
	for d, prefix := range []string{"a", "b"} {
		for i := range n {
			h := ring.Host{
				ID: fmt.Sprintf("%s%d", prefix, i), Addr: fmt.Sprintf("10.%d.0.%d:9042", d+1, i+1),
				DC: fmt.Sprintf("dc%d", d+1), Rack: fmt.Sprintf("r%d", i%3), Release: "5.0.9",
			}
			for range 16 {
				h.Tokens = append(h.Tokens, int64(rng.Uint64()))
			}
			topology.Hosts = append(topology.Hosts, h)
		}
	}
	r, err := ring.New(topology)
	require.NoError(t, err)
	return r
}

// farAway is the round trip time to dc2.
const farAway = 12 * time.Millisecond

// newTwoCluster returns a cluster that has the hosts of dc2 far away, and counts the keys
// outstanding there.
func newTwoCluster(n int) *cluster {
	c := newCluster(usually(rand.New(rand.NewPCG(5, 6))))
	near := c.usual
	for i := range n {
		c.set(fmt.Sprintf("b%d", i), func(at time.Duration, keys int) (time.Duration, error) {
			took, err := near(at, keys)
			return took + farAway, err
		})
	}
	return c
}

// elsewhereToo lets the keys of a request be asked in dc2.
func elsewhereToo(b *bench, req *Request) *Request {
	req.Elsewhere, _ = b.ring.Placement("ks")
	return req
}

// loadTwo is load with lookups that may go to dc2, unless they stay.
func loadTwo(b *bench, every, during time.Duration, keys int, stay bool) []outcome {
	n := int(during / every)
	out := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		req := b.request(keys)
		if !stay {
			elsewhereToo(b, req)
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 125*time.Millisecond)
			defer cancel()
			out[i] = b.run(ctx, req)
		})
		time.Sleep(every)
	}
	wg.Wait()
	return out
}

// askedAway is how many keys of lookups were asked of dc2.
func askedAway(all []outcome) int {
	n := 0
	for _, o := range all {
		for _, a := range o.Attempts {
			if strings.HasPrefix(a.Host, "10.2.") {
				n += len(a.Keys)
			}
		}
	}
	return n
}

// killed refuses everything between two moments.
func killed(n node, from, to time.Duration) node {
	return func(at time.Duration, keys int) (time.Duration, error) {
		if at >= from && at < to {
			return 0, &ReadError{Reason: ReasonUnreachable, Err: errMute}
		}
		return n(at, keys)
	}
}

// blackHoled answers nothing between two moments, until the connection is given up.
func blackHoled(n node, from, to time.Duration) node {
	return func(at time.Duration, keys int) (time.Duration, error) {
		if at >= from && at < to {
			return 5 * second, &ReadError{Reason: ReasonDisconnected, Err: errMute}
		}
		return n(at, keys)
	}
}

func TestALostDatacenterIsLeftAndComesBack(t *testing.T) {
	underrace.Skip(t, underrace.Simulations)
	for fault, lose := range map[string]func(node, time.Duration, time.Duration) node{
		"killed": killed, "black-holed": blackHoled, "frozen": frozen,
	} {
		for _, tt := range []struct {
			name  string
			hosts int
			every time.Duration
			keys  int
			stay  bool
		}{
			{"three hosts", 3, 20 * time.Millisecond, 50, false},
			{"six hosts, single keys", 6, 5 * time.Millisecond, 1, false},
			{"three hosts, seldom", 3, 500 * time.Millisecond, 1, false},
			{"control: off", 3, 20 * time.Millisecond, 50, true},
		} {
			t.Run(fault+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newTwoCluster(tt.hosts)
					c.record = false
					for i := range tt.hosts {
						c.set(fmt.Sprintf("a%d", i), lose(c.usual, 10*second, 20*second))
					}
					registry := prometheus.NewRegistry()
					b := newBench(t, newTwoRing(t, tt.hosts, 3), c, func(cfg *setup) {
						cfg.FailoverKeys, cfg.Registerer = 1024, registry
					})
					var during []Datacenter
					time.AfterFunc(15*second, func() { during = b.Datacenters() })
					all := loadTwo(b, tt.every, 60*second, tt.keys, tt.stay)

					gone := between(all, 10*second, 20*second)
					later := between(all, 10*second+500*time.Millisecond, 20*second)
					settled := between(all, 50*second, 60*second)
					t.Logf("lost %d of %d, slowest at first %v, then %v; keys in dc2 %d, of which %d after it came back; dc1 answers %v after",
						lost(gone), len(gone), slowest(gone), slowest(later), askedAway(all), askedAway(between(all, 20*second, 60*second)),
						firstAtHome(all, 20*second)-20*second)
					require.Zero(t, askedAway(between(all, 0, 10*second-200*time.Millisecond)), "not before")
					if tt.stay {
						assert.Greater(t, lost(gone), 9*len(gone)/10)
						assert.Zero(t, askedAway(all))
						return
					}
					assert.Zero(t, lost(all))
					if tt.every < 100*time.Millisecond {
						assert.Less(t, slowest(later), farAway+15*time.Millisecond)
						require.Len(t, during, 3)
						assert.Equal(t, []bool{false, true, false}, []bool{during[0].Active, during[1].Active, during[2].Active})
						assert.Equal(t, tt.hosts, during[0].Lost)
					}
					assert.Zero(t, askedAway(settled), "it came back")
					assert.Equal(t, len(settled)*tt.keys, answeredAtHome(settled))
					assert.InDelta(t, float64(askedAway(all)), testutil.ToFloat64(b.metrics.dcKeys.WithLabelValues("dc2")), float64(askedAway(all))/100+5, "but for probes")
					assert.InDelta(t, 1, gauge(t, registry, "qosproxy_dc_active", "dc1"), 0)
					assert.InDelta(t, 0, gauge(t, registry, "qosproxy_dc_active", "dc2"), 0)
				})
			})
		}
	}
}

// firstAtHome is when, from a moment on, a host of dc1 first won a key.
func firstAtHome(all []outcome, from time.Duration) time.Duration {
	for _, o := range all {
		for _, a := range o.Attempts {
			if strings.HasPrefix(a.Host, "10.1.") && a.Outcome == OutcomeWon && o.at+a.Start >= from {
				return o.at + a.End
			}
		}
	}
	return unset
}

// answeredAtHome is how many keys were asked in attempts at hosts of dc1 that won.
func answeredAtHome(all []outcome) int {
	n := 0
	for _, o := range all {
		for _, a := range o.Attempts {
			if strings.HasPrefix(a.Host, "10.1.") && a.Outcome == OutcomeWon {
				n += len(a.Keys)
			}
		}
	}
	return n
}

// gauge is the value of a series with the label dc.
func gauge(t *testing.T, from prometheus.Gatherer, name, dc string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == dc {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s", name, dc)
	return 0
}

func TestOnlySoManyKeysGoToAnotherDatacenter(t *testing.T) {
	for fault, lose := range map[string]func(node, time.Duration, time.Duration) node{"killed": killed, "frozen": frozen} {
		for most, holds := range map[int]bool{0: false, 60: false, 1024: true} {
			t.Run(fmt.Sprintf("%s, %d", fault, most), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newTwoCluster(3)
					for i := range 3 {
						c.set(fmt.Sprintf("a%d", i), lose(c.usual, second, 10*second))
						far := c.nodes[fmt.Sprintf("b%d", i)]
						c.set(fmt.Sprintf("b%d", i), func(at time.Duration, keys int) (time.Duration, error) {
							took, err := far(at, keys)
							return took + 50*time.Millisecond, err // so that the budget matters
						})
					}
					b := newBench(t, newTwoRing(t, 3, 3), c, func(cfg *setup) { cfg.FailoverKeys = most })
					peak := 0
					ticker := time.NewTicker(time.Millisecond)
					defer ticker.Stop()
					stop := make(chan struct{})
					go func() {
						for {
							select {
							case <-ticker.C:
								if d := b.Datacenters(); d != nil {
									peak = max(peak, d[1].InflightKeys)
								}
							case <-stop:
								return
							}
						}
					}()
					all := loadTwo(b, 20*time.Millisecond, 5*second, 50, false)
					close(stop)
					synctest.Wait()
					gone := between(all, 2*second, 5*second)
					found, shed, other := 0, 0, 0
					for _, o := range gone {
						found += o.count(partition.Found)
						for _, r := range o.results {
							switch {
							case r.Status == partition.Shed:
								shed++
								require.Error(t, r.Err)
							case r.Status != partition.Found:
								other++
								require.Error(t, r.Err)
							}
						}
					}
					denied := testutil.ToFloat64(b.metrics.dcDenied.WithLabelValues("dc2"))
					t.Logf("peak %d; found %d, shed %d, other %d; denied %v", peak, found, shed, other, denied)
					assert.LessOrEqual(t, peak, most)
					assert.Equal(t, most == 60, denied > 0)
					assert.Equal(t, holds, shed+other == 0)
					assert.Equal(t, most > 0, found > 0)
					assert.Equal(t, most == 0, askedAway(gone) == 0)
					if most == 60 {
						assert.Greater(t, shed, other, "what the budget has cost says so")
					}
				})
			})
		}
	}
}

func TestAQuorumElsewhereIsOneOfAnotherDatacenter(t *testing.T) {
	for frozenHosts, leaves := range map[int]bool{1: false, 2: true, 3: true} {
		t.Run(fmt.Sprint(frozenHosts, " of 3 frozen"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTwoCluster(3)
				for i := range frozenHosts {
					c.set(fmt.Sprintf("a%d", i), frozen(c.usual, 0, 5*second))
				}
				b := newBench(t, newTwoRing(t, 3, 3), c, func(cfg *setup) { cfg.FailoverKeys = 1024 })
				var all []outcome
				for range 50 {
					req := elsewhereToo(b, b.request(10))
					query := *req.Query
					query.Consistency, req.Query = "LOCAL_QUORUM", &query
					ctx, cancel := context.WithTimeout(t.Context(), 125*time.Millisecond)
					all = append(all, b.run(ctx, req))
					cancel()
					time.Sleep(20 * time.Millisecond)
				}
				assert.Equal(t, leaves, askedAway(all[10:]) > 0)
				if leaves {
					assert.Zero(t, lost(all[1:]))
				}
			})
		})
	}
}

// TestComparedReplicasAreOfOneDatacenter compares a quorum of replicas until their
// datacenter is lost; then coordinators of the other read.
func TestComparedReplicasAreOfOneDatacenter(t *testing.T) {
	for fault, lose := range map[string]func(node, time.Duration, time.Duration) node{"killed": killed, "frozen": frozen} {
		t.Run(fault, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testComparedReplicas(t, lose) }) })
	}
}

func testComparedReplicas(t *testing.T, lose func(node, time.Duration, time.Duration) node) {
	c := newTwoCluster(3)
	for i := range 3 {
		c.set(fmt.Sprintf("a%d", i), lose(c.usual, second, 10*second))
	}
	b := newBench(t, newTwoRing(t, 3, 3), c, func(cfg *setup) { cfg.FailoverKeys = 1024 })
	b.policies.compare = func([]partition.Result, []schema.Column) (partition.Result, quorum.Outcome) {
		return partition.Result{Status: partition.Found}, quorum.Matched
	}
	var all []outcome
	for range 150 {
		req := elsewhereToo(b, b.request(10))
		query, own := *req.Query, *req.Query
		query.Consistency, own.Consistency = "LOCAL_QUORUM", partition.OwnData
		req.Query, req.Quorum = &query, &Quorum{Query: &own, Hosts: make([]bool, b.ring.Len())}
		for i := range req.Quorum.Hosts {
			req.Quorum.Hosts[i] = true
		}
		ctx, cancel := context.WithTimeout(t.Context(), 125*time.Millisecond)
		all = append(all, b.run(ctx, req))
		cancel()
		time.Sleep(20 * time.Millisecond)
	}
	assert.Zero(t, lost(all))
	local, away := 0, 0
	for _, o := range all {
		for _, a := range o.Attempts {
			there := strings.HasPrefix(a.Host, "10.2.")
			assert.NotEqual(t, there, a.OwnData, "%s is asked for its own data only here", a.Host)
			if there {
				away++
			} else {
				local++
			}
		}
	}
	assert.Positive(t, local)
	assert.Positive(t, away)
	assert.Positive(t, askedAway(all[len(all)-10:]))
	assert.Zero(t, all[len(all)-1].Hedges, "the plan leaves out what is lost")
	assert.Positive(t, b.outcomes()["fallback_replicas"])
	assert.Zero(t, b.outcomes()["fallback_refused"])
}

// TestAHostElsewhereThatFailsIsNotTheLast never hedges, has all local hosts silent, and the first
// host elsewhere refuse the key.
func TestAHostElsewhereThatFailsIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTwoCluster(3)
		refused := 0
		for i := range 3 {
			c.set(fmt.Sprintf("a%d", i), silent())
			c.set(fmt.Sprintf("b%d", i), func(time.Duration, int) (time.Duration, error) {
				if refused++; refused == 1 {
					return time.Millisecond, &ReadError{Reason: ReasonOverloaded, Err: errMute}
				}
				return time.Millisecond, nil
			})
		}
		b := newBench(t, newTwoRing(t, 3, 3), c, func(cfg *setup) { cfg.FailoverKeys = 1024 })
		b.policy = hedge.Policy{}
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		o := b.run(ctx, elsewhereToo(b, b.request(30))) // all local hosts are asked for some
		assert.Equal(t, 30, o.count(partition.Found))
		away := int64(0)
		for _, h := range b.Health() {
			away += h.HedgedAway
		}
		assert.Positive(t, away)
	})
}

func TestLoadAndRefusalsAreNoReasonToLeave(t *testing.T) {
	for name, n := range map[string]node{
		"overloaded": failing(ReasonOverloaded), "read failures": failing(ReasonReadFailure), "invalid": failing(ReasonInvalid),
		"timeouts": failing(ReasonTimeout), "slow": after(40 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTwoCluster(3)
				c.usual = n
				b := newBench(t, newTwoRing(t, 3, 3), c, func(cfg *setup) { cfg.FailoverKeys = 1024 })
				all := loadTwo(b, 5*time.Millisecond, 5*second, 20, false)
				away := askedAway(between(all, second, 5*second))
				t.Logf("%d keys asked of dc2", away)
				assert.Zero(t, away)
			})
		})
	}
}

// TestAThirdOfEachDatacenterMayBeEjected loses the local datacenter while hosts of the
// other time out: each has a limit of its own.
func TestAThirdOfEachDatacenterMayBeEjected(t *testing.T) {
	for sick := range 4 {
		t.Run(fmt.Sprintf("%d of 3 time out", sick), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTwoCluster(3)
				for i := range 3 {
					c.set(fmt.Sprintf("a%d", i), killed(c.usual, 0, 10*second))
				}
				for i := range sick {
					c.set(fmt.Sprintf("b%d", i), failing(ReasonTimeout))
				}
				b := newBench(t, newTwoRing(t, 3, 3), c, func(cfg *setup) { cfg.FailoverKeys = 1024 })
				loadTwo(b, 20*time.Millisecond, 5*second, 20, false)
				out := map[string]int{}
				for _, h := range b.view(b.ring).hosts {
					if h.is(Ejected) {
						out[h.DC]++
					}
				}
				assert.Equal(t, 3, out["dc1"], "none can be reached")
				assert.Equal(t, min(sick, 1), out["dc2"])
			})
		})
	}
}

func TestAKeyspaceThatIsNotHereIsNotReadElsewhere(t *testing.T) {
	r, err := ring.New(ring.Topology{
		LocalDC: "dc1", LaterDCs: []string{"dc2"},
		Keyspaces: map[string]ring.Replication{"ks": {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc2": 1}}},
		Hosts: []ring.Host{
			{ID: "a", Addr: "10.1.0.1:9042", DC: "dc1", Rack: "r", Tokens: []int64{1}},
			{ID: "b", Addr: "10.2.0.1:9042", DC: "dc2", Rack: "r", Tokens: []int64{2}},
		},
	})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, r, newTwoCluster(1), func(cfg *setup) { cfg.FailoverKeys = 1024 })
		o := b.run(t.Context(), elsewhereToo(b, b.request(1)))
		assert.Equal(t, partition.Unavailable, o.results[0].Status)
	})
}
