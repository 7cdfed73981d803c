package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// statements is a Reader that sends a statement of its own for each key.
type statements struct {
	mu    sync.Mutex
	reads []read
	// say is how a host treats the statement of a key, at a position of its sub-query:
	// after what time, and with what error. A negative time means never.
	say func(host string, k partition.Key, at int) (time.Duration, error)
	// whole delivers nothing before all statements have ended.
	whole bool
}

func (s *statements) Read(ctx context.Context, q *SubQuery) ([]partition.Result, error) {
	s.mu.Lock()
	s.reads = append(s.reads, read{host: q.Host.ID, keys: q.Keys, ctx: ctx})
	s.mu.Unlock()
	var open, ended atomic.Int32
	open.Store(int32(len(q.Keys)))
	settled := func() {
		if open.Add(-1) == 0 {
			q.Settled()
		}
	}
	results := make([]partition.Result, len(q.Keys))
	var all sync.WaitGroup
	for i := range q.Keys {
		all.Go(func() {
			took, err := s.say(q.Host.ID, q.Keys[i], i)
			results[i] = partition.Result{Status: partition.Found}
			switch {
			case took < 0:
				<-ctx.Done()
				settled()
				return
			case !work(ctx, took, settled):
				return
			case err != nil:
				results[i] = partition.Result{Status: partition.Failed, Err: err}
			}
			if int(ended.Add(1)) < len(results) && !s.whole && q.Early != nil {
				q.Early.Receive(i, results[i:i+1])
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return results, ctx.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *statements) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hosts []string
	for _, r := range s.reads {
		hosts = append(hosts, r.host)
	}
	return hosts
}

// lostFor returns the error that a Reader gives for a lost key.
func lostFor(r Reason) error {
	if r == ReasonReadFailure {
		return errors.New("the partition cannot be read")
	}
	return &ReadError{Reason: r, Err: errors.New("scripted")}
}

const ms = time.Millisecond

// newGroup returns an executor over three hosts and a request of keys, for within.
func newGroup(t *testing.T, s *statements, keys int) (*bench, *Request) {
	t.Helper()
	b := newBench(t, newRing(t, 3, 3, 3), newCluster(nil), func(cfg *setup) { cfg.Reader = s })
	return b, b.request(keys)
}

func (b *bench) host(id string) *host {
	i, _ := b.ring.Index(id)
	return b.view(b.ring).hosts[i]
}

// within executes a request whose keys are all asked of "h0" first.
func (b *bench) within(timeout time.Duration, req *Request) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return b.runPlan(ctx, req, b.toOne(req))
}

// toOne plans one group for "h0".
func (b *bench) toOne(req *Request) Plan {
	h0, _ := b.ring.Index("h0")
	g := planner.Group{Host: h0}
	for k := range req.Keys {
		g.Keys = append(g.Keys, int32(k))
	}
	return Plan{Plan: planner.Plan{Groups: []planner.Group{g}}, req: req, view: b.view(req.Ring)}
}

func odd(at int) bool { return at%2 == 1 }

var everyReason = []Reason{ReasonUnreachable, ReasonDisconnected, ReasonUnavailable, ReasonTimeout,
	ReasonOverloaded, ReasonReadFailure, ReasonInvalid, ReasonOther}

func TestKeysLostBesideAnsweredOnesAreAskedOfAnotherReplicaAtOnce(t *testing.T) {
	for _, reason := range everyReason {
		for name, whole := range map[string]bool{"handed on": false, "told at the end": true} {
			t.Run(string(reason)+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &statements{whole: whole, say: func(host string, _ partition.Key, at int) (time.Duration, error) {
						if host == "h0" && odd(at) {
							return ms, lostFor(reason)
						}
						return ms, nil
					}}
					b, req := newGroup(t, s, 6)
					before := req.Table.retries.Saved()
					o := b.within(second, req)
					require.Equal(t, 6, o.count(partition.Found))
					assert.Equal(t, 2*ms, o.took)
					assert.Equal(t, "h0", s.asked()[0])
					require.NotEmpty(t, o.Attempts)
					assert.Equal(t, OutcomeWon, o.Attempts[0].Outcome)
					assert.Equal(t, reason, o.Attempts[0].Err)
					assert.Zero(t, o.Hedges)

					assert.Positive(t, o.Failovers)
					assert.Equal(t, o.Failovers, int(testutil.ToFloat64(b.metrics.failovers.WithLabelValues(string(reason)))))
					paid := before + 6*retryRatio - req.Table.retries.Saved()
					if reason.Free() {
						assert.Zero(t, paid, "a free reason costs no budget")
					} else {
						assert.InDelta(t, 3, paid, 1e-9)
					}
					held := 1
					if reason == ReasonInvalid || reason == ReasonReadFailure || reason == ReasonUnavailable {
						held = 0
					}
					synctest.Wait()
					for _, h := range b.Health() {
						assert.Zero(t, h.InflightKeys, h.Host.ID)
						if h.Host.ID == "h0" {
							assert.Equal(t, held, h.Failures, "a sub-query that loses keys is one failure of its host")
						} else {
							assert.Zero(t, h.Failures, h.Host.ID)
						}
					}
				})
			})
		}
	}
}

func TestKeysThatEveryReplicaLosesEndByTheirReason(t *testing.T) {
	for reason, want := range map[Reason]partition.Status{
		ReasonUnreachable: partition.Unavailable, ReasonDisconnected: partition.Unavailable, ReasonUnavailable: partition.Unavailable,
		ReasonTimeout: partition.TimedOut, ReasonOverloaded: partition.Shed,
		ReasonReadFailure: partition.Failed, ReasonInvalid: partition.Failed, ReasonOther: partition.Failed,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bad []string
				s := &statements{}
				b, req := newGroup(t, s, 4)
				for _, k := range []int{1, 3} {
					bad = append(bad, string(req.Keys[k].Routing()))
				}
				s.say = func(_ string, k partition.Key, _ int) (time.Duration, error) {
					if slices.Contains(bad, string(k.Routing())) {
						return ms, lostFor(reason)
					}
					return ms, nil
				}
				o := b.within(second, req)
				assert.Equal(t, 2, o.count(partition.Found))
				assert.Equal(t, want, o.results[1].Status)
				assert.Equal(t, want, o.results[3].Status)
				require.Error(t, o.results[1].Err)
				asked := 0
				for _, a := range o.Attempts {
					if slices.Contains(a.Keys, 1) {
						asked++
					}
				}
				if reason == ReasonReadFailure {
					assert.Equal(t, 2, asked, "a key that cannot be read is asked of one other replica")
					assert.EqualError(t, o.results[1].Err, "the partition cannot be read")
				} else {
					assert.Equal(t, 3, asked, "every replica is asked")
					assert.Equal(t, verdict(reason).Err, o.results[1].Err)
				}
			})
		})
	}
}

func TestKeysThatWereLostMayBeHedged(t *testing.T) {
	for _, reason := range everyReason {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				second := ""
				s := &statements{}
				s.say = func(host string, _ partition.Key, at int) (time.Duration, error) {
					s.mu.Lock()
					defer s.mu.Unlock()
					switch {
					case host == "h0" && at == 1:
						return ms, lostFor(reason)
					case host != "h0" && second == "":
						second = host
					}
					if host == second {
						return -1, nil
					}
					return ms, nil
				}
				b, req := newGroup(t, s, 2)
				o := b.within(100*ms, req)
				if reason == ReasonReadFailure {
					assert.Equal(t, 1, o.count(partition.TimedOut), "what one replica cannot read is never hedged")
					assert.Zero(t, o.Hedges)
					return
				}
				assert.Equal(t, 2, o.count(partition.Found))
				assert.Equal(t, 1, o.Hedges)
				assert.Equal(t, ms+15*ms+ms, o.took)
			})
		})
	}
}

func TestAHostThatLosesAPartOfEachSubQueryIsEjected(t *testing.T) {
	for _, reason := range everyReason {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := newGroup(t, &statements{say: func(host string, _ partition.Key, at int) (time.Duration, error) {
					if host == "h0" && at == 0 {
						return ms, lostFor(reason)
					}
					return ms, nil
				}}, 1)
				for i := range DefaultLimits().EjectAfter {
					assert.Equal(t, Healthy, b.Health()[0].State, "after %d sub-queries", i)
					o := b.within(second, b.request(8))
					require.Equal(t, 8, o.count(partition.Found))
				}
				want := Ejected
				if reason == ReasonReadFailure || reason == ReasonInvalid || reason == ReasonUnavailable {
					want = Healthy
				}
				assert.Equal(t, want, b.Health()[0].State)
				assert.False(t, b.host("h0").gone.Load(), "a host that answers something can be reached")
			})
		})
	}
}

// TestALossThatSaysNothingOfAHostHidesNone has one statement of each sub-query refused, and the
// next one time out.
func TestALossThatSaysNothingOfAHostHidesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newGroup(t, &statements{say: func(host string, _ partition.Key, at int) (time.Duration, error) {
			switch {
			case host == "h0" && at == 0:
				return ms, lostFor(ReasonInvalid)
			case host == "h0" && at == 1:
				return 5 * ms, lostFor(ReasonTimeout)
			}
			return ms, nil
		}}, 1)
		for range DefaultLimits().EjectAfter {
			o := b.within(second, b.request(8))
			require.Equal(t, 8, o.count(partition.Found))
			time.Sleep(10 * ms)
		}
		assert.Equal(t, Ejected, b.Health()[0].State)
	})
}

func TestAHostThatLosesAllKeysIsGoneIfItCannotBeReached(t *testing.T) {
	for reason, gone := range map[Reason]bool{ReasonUnreachable: true, ReasonDisconnected: true, ReasonTimeout: false, ReasonOther: false} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, req := newGroup(t, &statements{say: func(host string, _ partition.Key, _ int) (time.Duration, error) {
					if host == "h0" {
						return ms, lostFor(reason)
					}
					return ms, nil
				}}, 8)
				o := b.within(second, req)
				assert.Equal(t, 8, o.count(partition.Found))
				assert.Equal(t, gone, b.host("h0").gone.Load())
				assert.Equal(t, 1, b.Health()[0].Failures)
				assert.Equal(t, OutcomeFailed, o.Attempts[0].Outcome)
				assert.Equal(t, reason, o.Attempts[0].Err)
			})
		})
	}
}

// TestASlowStatementHoldsUpNobody has one statement of a sub-query hang.
func TestASlowStatementHoldsUpNobody(t *testing.T) {
	for name, whole := range map[string]bool{"handed on": false, "control: told at the end": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, req := newGroup(t, &statements{whole: whole, say: func(host string, _ partition.Key, at int) (time.Duration, error) {
					if host == "h0" && at == 2 {
						return 300 * ms, nil
					}
					return ms, nil
				}}, 8)
				ctx, cancel := context.WithTimeout(t.Context(), second)
				defer cancel()
				first := make([]time.Duration, 8)
				begin := time.Now()
				stats := b.Execute(ctx, b.toOne(req), func(k int, _ partition.Result) { first[k] = time.Since(begin) })
				slices.Sort(first)
				require.Equal(t, 1, stats.Groups)
				assert.Equal(t, 16*ms, first[7], "the late key is hedged")
				hedged := 0
				for _, a := range stats.Attempts {
					if a.Kind == KindHedge {
						hedged += len(a.Keys)
					}
				}
				if whole {
					assert.Equal(t, 16*ms, first[0])
					assert.Equal(t, 8, hedged)
					return
				}
				assert.Equal(t, ms, first[6])
				assert.Equal(t, 1, hedged, "and no other")
				assert.Equal(t, OutcomeWon, stats.Attempts[0].Outcome)
				assert.Equal(t, 8, b.Health()[0].InflightKeys, "a statement is outstanding")
				assert.False(t, b.host("h0").silentFor(15*ms+1), "a host that answers statements is not silent")
				time.Sleep(second)
				assert.Zero(t, b.Health()[0].InflightKeys)
			})
		})
	}
}

func TestAnsweredKeysOutliveTheDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		whole bool
		found int
	}{
		"handed on":                {false, 7},
		"control: told at the end": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &statements{whole: tt.whole}
				b, req := newGroup(t, s, 8)
				stuck := string(req.Keys[3].Routing())
				s.say = func(host string, k partition.Key, _ int) (time.Duration, error) {
					if host != "h0" || string(k.Routing()) == stuck {
						return -1, nil
					}
					return ms, nil
				}
				o := b.within(100*ms, req)
				assert.Equal(t, tt.found, o.count(partition.Found))
				assert.Equal(t, 8-tt.found, o.count(partition.TimedOut))
				assert.Equal(t, 100*ms, o.took)
				assert.Equal(t, OutcomePending, o.Attempts[0].Outcome, "it was waited for to the end")
			})
		})
	}
}

// TestAHostIsHeldToAccountForWhatItLostThoughTheRestIsGivenUp has a sub-query lose some
// keys, while the others are answered elsewhere before it has ended.
func TestAHostIsHeldToAccountForWhatItLostThoughTheRestIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, req := newGroup(t, &statements{say: func(host string, _ partition.Key, at int) (time.Duration, error) {
			switch {
			case host != "h0" || at == 0:
				return ms, nil
			case at < 3:
				return ms, lostFor(ReasonDisconnected)
			}
			return -1, nil
		}}, 6)
		o := b.within(second, req)
		assert.Equal(t, 6, o.count(partition.Found))
		assert.Equal(t, 16*ms, o.took)
		synctest.Wait()
		assert.Equal(t, 1, b.Health()[0].Failures)
		for _, a := range o.Attempts[1:] {
			if a.Start < 15*ms {
				assert.Equal(t, ms, a.Start, "what was lost does not wait for the rest")
				assert.Equal(t, KindFailover, a.Kind)
			}
		}
	})
}

func TestReasonsOfOneSubQueryAreTreatedEachAsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &statements{whole: true, say: func(host string, _ partition.Key, at int) (time.Duration, error) {
			if host != "h0" {
				return ms, nil
			}
			return ms, [...]error{nil, lostFor(ReasonUnreachable), lostFor(ReasonTimeout), lostFor(ReasonReadFailure),
				lostFor(ReasonUnreachable), lostFor(ReasonTimeout), lostFor(ReasonTimeout), lostFor(ReasonInvalid)}[at]
		}}
		b, req := newGroup(t, s, 8)
		before := req.Table.retries.Saved()
		o := b.within(second, req)
		assert.Equal(t, 8, o.count(partition.Found))
		assert.InDelta(t, 5, before+8*retryRatio-req.Table.retries.Saved(), 1e-9, "three timeouts, a read failure, an invalid")
		sent := 0.0
		for _, r := range everyReason {
			n := testutil.ToFloat64(b.metrics.failovers.WithLabelValues(string(r)))
			wanted := r == ReasonUnreachable || r == ReasonTimeout || r == ReasonReadFailure || r == ReasonInvalid
			assert.Equal(t, wanted, n > 0, "%s", r)
			sent += n
		}
		assert.InDelta(t, o.Failovers, sent, 0)
	})
}

// spend empties a pool, and closes its floor.
func spend(p *hedge.Pool) {
	for p.Withdraw(1000) {
	}
}

// TestAnEmptyRetryBudgetBearsOnReasonsThatCostSomething loses keys for two reasons, of
// which one is free.
func TestAnEmptyRetryBudgetBearsOnReasonsThatCostSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &statements{whole: true, say: func(host string, _ partition.Key, at int) (time.Duration, error) {
			switch {
			case host != "h0":
				return ms, nil
			case odd(at):
				return ms, lostFor(ReasonUnreachable)
			}
			return ms, lostFor(ReasonTimeout)
		}}
		b, req := newGroup(t, s, 8)
		spend(req.Table.retries)
		o := b.within(second, req)
		assert.Equal(t, 4, o.count(partition.Found), "what could not be reached costs nothing")
		assert.Equal(t, 4, o.count(partition.TimedOut))
	})
}

func TestTheFirstWordOfAKeyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found, bad := partition.Result{Status: partition.Found}, partition.Result{Status: partition.Failed, Err: lostFor(ReasonTimeout)}
		asked := 0
		var late Early
		r := ReaderFunc(func(_ context.Context, q *SubQuery) ([]partition.Result, error) {
			asked++
			results := slices.Repeat([]partition.Result{found}, len(q.Keys))
			if asked == 1 {
				late = q.Early
				q.Early.Receive(1, []partition.Result{found, bad})
				q.Early.Receive(0, []partition.Result{found, bad, bad})
				results[1], results[2] = bad, bad
			}
			q.Settled()
			return results, nil
		})
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(nil), func(cfg *setup) { cfg.Reader = r })
		o := b.within(second, b.request(4))
		assert.Equal(t, 4, o.count(partition.Found))
		assert.Equal(t, 2, asked, "one key was lost once")
		require.Len(t, o.Attempts, 2)
		assert.Len(t, o.Attempts[1].Keys, 1)
		late.Receive(0, []partition.Result{bad}) // nobody is there, and nothing is blocked
	})
}

func TestAProbeThatLosesKeysIsNoSignOfHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newGroup(t, &statements{say: func(host string, _ partition.Key, at int) (time.Duration, error) {
			if host == "h0" && at == 0 {
				return ms, lostFor(ReasonDisconnected)
			}
			return ms, nil
		}}, 8)
		for range DefaultLimits().EjectAfter {
			b.within(second, b.request(8))
		}
		h := b.host("h0")
		require.True(t, h.is(Ejected))
		time.Sleep(2 * second)
		b.lookup(8, second)
		synctest.Wait()
		assert.True(t, h.is(Ejected))
		assert.Equal(t, 2*second, h.history.backoff, "its probe has failed")
		time.Sleep(10 * ms)
	})
}

// TestARefusedProbeIsAnAnswer has an ejected host answer again, but refuse the queries of a table.
func TestARefusedProbeIsAnAnswer(t *testing.T) {
	for reason, back := range map[Reason]bool{ReasonInvalid: true, ReasonRefused: true, ReasonTimeout: false} {
		synctest.Test(t, func(t *testing.T) {
			why := ReasonUnreachable
			b, _ := newGroup(t, &statements{say: func(host string, _ partition.Key, _ int) (time.Duration, error) {
				if host == "h0" {
					return ms, lostFor(why)
				}
				return ms, nil
			}}, 8)
			for range DefaultLimits().EjectAfter {
				b.within(second, b.request(8))
			}
			h := b.host("h0")
			require.True(t, h.is(Ejected))
			why = reason
			time.Sleep(2 * second)
			b.lookup(8, second)
			time.Sleep(10 * ms)
			assert.Equal(t, back, !h.is(Ejected), "%s", reason)
		})
	}
}

// TestASubQueryIsGivenUpOnceNoKeyOfItIsWaitedFor has one of two keys answered elsewhere and
// the other lost, while the statement of the first hangs.
func TestASubQueryIsGivenUpOnceNoKeyOfItIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &statements{}
		b, req := newGroup(t, s, 2)
		stuck := string(req.Keys[1].Routing())
		s.say = func(host string, k partition.Key, _ int) (time.Duration, error) {
			hangs := string(k.Routing()) == stuck
			switch {
			case host != "h0" && hangs:
				return ms, nil
			case host != "h0":
				return 30 * ms, nil
			case hangs:
				return -1, nil
			}
			return 20 * ms, lostFor(ReasonOverloaded)
		}
		time.AfterFunc(21*ms, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			assert.ErrorIs(t, context.Cause(s.reads[0].ctx), ErrAnswered)
			assert.NoError(t, context.Cause(s.reads[1].ctx), "the other key is still asked")
		})
		o := b.within(second, req)
		assert.Equal(t, 2, o.count(partition.Found))
		assert.Equal(t, 45*ms, o.took)
		assert.Zero(t, o.Failovers, "what was lost is on its way elsewhere")
		assert.Equal(t, OutcomeFailed, o.Attempts[0].Outcome)
		assert.Equal(t, ReasonOverloaded, o.Attempts[0].Err)
	})
}

func TestHowResultsLand(t *testing.T) {
	found, large := partition.Result{Status: partition.Found}, partition.Result{Status: partition.TooLarge, Err: ErrCrowded}
	lost := func(r Reason) partition.Result { return partition.Result{Status: partition.Failed, Err: lostFor(r)} }
	for name, tt := range map[string]struct {
		results []partition.Result
		err     error
		how     phase
		reason  Reason
	}{
		"all answered":                       {[]partition.Result{found, large}, nil, answered, ""},
		"a partition that cannot be read":    {[]partition.Result{found, lost(ReasonReadFailure)}, nil, answered, ""},
		"one lost":                           {[]partition.Result{found, lost(ReasonReadFailure), lost(ReasonTimeout)}, nil, failed, ReasonTimeout},
		"the first that speaks of the host":  {[]partition.Result{lost(ReasonInvalid), lost(ReasonTimeout), lost(ReasonOther)}, nil, failed, ReasonTimeout},
		"invalid alone":                      {[]partition.Result{lost(ReasonInvalid), found}, nil, failed, ReasonInvalid},
		"large, and then late":               {[]partition.Result{lost(ReasonSize), lost(ReasonTimeout)}, nil, failed, ReasonTimeout},
		"lost as a whole":                    {nil, lostFor(ReasonOverloaded), failed, ReasonOverloaded},
		"an error of another kind":           {nil, context.DeadlineExceeded, failed, ReasonOther},
		"a reason that nobody else may give": {[]partition.Result{lost(reasonFull)}, nil, failed, ReasonOther},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			how, reason := phaseOf(ctx, tt.results, tt.err)
			assert.Equal(t, tt.how, how)
			assert.Equal(t, tt.reason, reason)
			cancel()
			how, reason = phaseOf(ctx, tt.results, tt.err)
			if tt.how == answered {
				assert.Equal(t, answered, how)
			} else {
				assert.Equal(t, abandoned, how, "what is said after the end of the context has no meaning")
			}
			assert.Empty(t, reason)
		})
	}
}

// TestAKeyThatTwoAttemptsLoseAtOnceIsAskedOnce has a host and the host of its hedge lose
// the same group in the same moment.
func TestAKeyThatTwoAttemptsLoseAtOnceIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &statements{}
		b, req := newGroup(t, s, 4)
		s.say = func(host string, _ partition.Key, _ int) (time.Duration, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case host == "h0":
				return 20 * ms, lostFor(ReasonTimeout)
			case len(s.reads) > 1 && host == s.reads[1].host:
				return 5 * ms, lostFor(ReasonOverloaded)
			}
			return ms, nil
		}
		h0, _ := b.ring.Index("h0")
		h1, _ := b.ring.Index("h1")
		h2, _ := b.ring.Index("h2")
		for k := range req.Replicas {
			req.Replicas[k] = append(req.Replicas[k][:0:0], h0, h1, h2)
		}
		b.occupy("h2", b.limits.InflightKeys, 16*ms) // so that the hedge is one group
		o := b.within(second, req)
		assert.Equal(t, 4, o.count(partition.Found))
		assert.Equal(t, 21*ms, o.took)
		assert.Equal(t, 1, o.Hedges)
		keys := 0
		for _, a := range o.Attempts[2:] {
			assert.Equal(t, KindFailover, a.Kind)
			keys += len(a.Keys)
		}
		assert.Equal(t, 4, keys)
	})
}
