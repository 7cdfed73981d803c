package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
)

func TestTraceSaysWhyALateAttemptWasNotHedged(t *testing.T) {
	for name, tt := range map[string]struct {
		rf      int
		timeout time.Duration
		prepare func(b *bench)
		want    NotHedged
	}{
		"there is no other replica": {rf: 1, timeout: 100 * time.Millisecond, want: NotHedgedReplicas},
		"too little time is left":   {rf: 3, timeout: 15*time.Millisecond + 500*time.Microsecond, want: NotHedgedDeadline},
		"the budget is spent": {rf: 3, timeout: 100 * time.Millisecond, want: NotHedgedBudget, prepare: func(b *bench) {
			for b.state().hedges.Withdraw(hedge.Wanted{Keys: 1, SubQueries: 1, Quiet: true}) {
			}
			drain(b.state().hedges, true)
		}},
		"most attempts are late": {rf: 3, timeout: 50 * time.Millisecond, want: NotHedgedLoad, prepare: func(b *bench) {
			for range 200 {
				b.state().noteLate(true)
			}
		}},
		"control: it was": {rf: 3, timeout: 100 * time.Millisecond, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(silent())
				b := newBench(t, newRing(t, 3, tt.rf, 3), c, nil)
				if tt.prepare != nil {
					tt.prepare(b)
				}
				o := b.lookup(1, tt.timeout)
				require.NotEmpty(t, o.Attempts)
				first := o.Attempts[0]
				assert.Equal(t, tt.want, first.NotHedged)
				assert.Equal(t, 15*time.Millisecond, first.HedgeAfter)
				assert.Equal(t, tt.want == "", len(o.Attempts) > 1)
			})
		})
	}
}

func TestTraceTellsNeverFromAtOnce(t *testing.T) {
	for policy, want := range map[string]time.Duration{"NONE": -1, "ALWAYS": 0, "20ms": 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, newRing(t, 3, 3, 3), newCluster(after(time.Millisecond)), nil)
			var err error
			b.policy, err = hedge.ParsePolicy(policy)
			require.NoError(t, err)
			assert.Equal(t, want, b.lookup(1, time.Second).Attempts[0].HedgeAfter, policy)
		})
	}
}

func TestWhatHasNotAnsweredByTheDeadlineIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newRing(t, 3, 3, 3), newCluster(silent()), nil)
		o := b.lookup(1, 40*time.Millisecond)
		for _, a := range o.Attempts {
			assert.Equal(t, OutcomePending, a.Outcome)
			assert.Equal(t, 40*time.Millisecond, a.End)
		}
	})
}

func TestExplainSaysWhichHostsAreAvoidedAndWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		node node
		keys int
		want Avoided
	}{
		"it is ejected":          {failing(ReasonOther), 0, AvoidedEjected},
		"it is full":             {usuallyWell, 2000, AvoidedFull},
		"it is slow":             {silent(), 0, AvoidedSuspect},
		"control: it is healthy": {usuallyWell, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(usuallyWell)
				b := newBench(t, newRing(t, 6, 3, 3), c, nil)
				c.set("h1", tt.node)
				for range 20 {
					b.lookup(20, 100*time.Millisecond)
				}
				req := b.request(20)
				h := b.view(b.ring).hosts[hostIndex(b, "h1")]
				h.keys.Add(int64(tt.keys))
				plan := b.Plan(req)
				got := plan.Survey.Avoided[hostIndex(b, "h1")]
				if tt.want == AvoidedSuspect {
					assert.Contains(t, []Avoided{AvoidedSuspect, AvoidedStalled}, got)
				} else {
					assert.Equal(t, tt.want, got)
				}
				if tt.want != "" {
					for _, g := range plan.Groups {
						assert.NotEqual(t, "h1", b.ring.Host(g.Host).ID)
					}
				}
				h.keys.Add(-int64(tt.keys))
			})
		})
	}
}

func usuallyWell(time.Duration, int) (time.Duration, error) { return time.Millisecond, nil }

func hostIndex(b *bench, id string) int {
	for i, h := range b.ring.Hosts() {
		if h.ID == id {
			return i
		}
	}
	b.t.Fatal("no host " + id)
	return -1
}

// TestThePlanOfNothingIsDescribedByItsOwnSurvey plans a request of which no key can be
// asked of its replicas, after a plan over more hosts.
func TestThePlanOfNothingIsDescribedByItsOwnSurvey(t *testing.T) {
	b := newBench(t, newRing(t, 3, 3, 3), newCluster(nil), nil)
	req := b.quorumRequest(1)
	clear(req.Quorum.Hosts)
	for range 8 { // the pool may return another
		before := new(survey)
		before.reset(9)
		before.size.Keys = 25
		for i := range before.avoid {
			before.avoid[i] = true
		}
		b.surveys.Put(before)
		plan := b.Plan(req)
		assert.Empty(t, plan.Groups)
		assert.Equal(t, make([]Avoided, 3), plan.Survey.Avoided)
		assert.Zero(t, plan.Survey.Size)
	}
}
