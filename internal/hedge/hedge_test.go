package hedge

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParsePolicySpeaksCassandra(t *testing.T) {
	for in, want := range map[string]string{
		"NONE": "NONE", "never": "NONE", "Always": "ALWAYS", " 15ms ": "15ms", "15MS": "15ms", "0.5ms": "0.5ms", "15.00ms": "15ms",
		"99p": "99p", "99P": "99p", "99PERCENTILE": "99p", "99.9percentile": "99.9p", "99.99p": "99.99p", "50.0p": "50p",
		"MIN(99p,15ms)": "MIN(99p,15ms)", "min( 15ms , 99PERCENTILE )": "MIN(99p,15ms)", "max(99.5p,20ms)": "MAX(99.5p,20ms)",
	} {
		t.Run(in, func(t *testing.T) {
			p, err := ParsePolicy(in)
			require.NoError(t, err)
			assert.Equal(t, want, p.String())
			again, err := ParsePolicy(p.String())
			require.NoError(t, err)
			assert.Equal(t, p, again)
		})
	}
}

func TestParsePolicyRefusesAndSaysWhatIsAllowed(t *testing.T) {
	for in, why := range map[string]string{
		"":               "unknown word",
		"15":             "unknown word",
		"15s":            "unknown word",
		"CUSTOM(x.y.Z)":  "CUSTOM",
		"0ms":            "say ALWAYS",
		"-1ms":           "number of milliseconds",
		"1e9ms":          "number of milliseconds",
		"infms":          "number of milliseconds",
		"3600001ms":      "an hour",
		"0p":             "between 0 and 100",
		"100p":           "between 0 and 100",
		"nanp":           "between 0 and 100",
		"p":              "between 0 and 100",
		"ms":             "number of milliseconds",
		"1.2.3p":         "between 0 and 100",
		"MIN(99p)":       "two values",
		"MIN(99p,15ms":   "two values",
		"MIN(99p,1ms,2)": "two values",
		"MIN(99p,98p)":   "one delay and one percentile",
		"MAX(1ms,2ms)":   "one delay and one percentile",
		"MIN(NONE,15ms)": "unknown word",
	} {
		t.Run(in, func(t *testing.T) {
			_, err := ParsePolicy(in)
			require.ErrorIs(t, err, ErrPolicy)
			assert.Contains(t, err.Error(), why)
			assert.Contains(t, err.Error(), allowedPolicies)
		})
	}
}

func TestDelay(t *testing.T) {
	var l Latencies
	for range 100 {
		l.Observe(7, 20*time.Millisecond)
	}
	p99 := l.Quantile(0.99, 7)
	for in, want := range map[string]time.Duration{
		"ALWAYS": 0, "15ms": 15 * time.Millisecond, "99p": p99,
		"MIN(99p,15ms)": 15 * time.Millisecond, "MIN(99p,30ms)": p99,
		"MAX(99p,15ms)": p99, "MAX(99p,30ms)": 30 * time.Millisecond,
	} {
		p, err := ParsePolicy(in)
		require.NoError(t, err)
		d, ok := p.Delay(&l, 7)
		assert.True(t, ok, in)
		assert.Equal(t, want, d, in)
	}
	_, ok := Policy{}.Delay(nil, 7)
	assert.False(t, ok)
}

func TestPolicyIsTextInConfigurations(t *testing.T) {
	var p Policy
	require.NoError(t, p.UnmarshalText([]byte("min(99p,15ms)")))
	text, err := p.MarshalText()
	require.NoError(t, err)
	assert.Equal(t, "MIN(99p,15ms)", string(text))
	require.ErrorIs(t, p.UnmarshalText([]byte("soon")), ErrPolicy)
	assert.Equal(t, "MIN(99p,15ms)", p.String(), "a refused text changes nothing")
	assert.Equal(t, Policy{}, Fixed(0))
	assert.Equal(t, Policy{}, Fixed(-1))
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"NONE", "ALWAYS", "15ms", "99p", "MIN(99p,15ms)", "MAX(15ms,99.9PERCENTILE)", "CUSTOM", "0.0000001ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePolicy(s)
		if err != nil {
			if !strings.Contains(err.Error(), allowedPolicies) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if _, err := ParsePolicy(p.String()); err != nil {
			t.Fatalf("%q is written as %q: %v", s, p, err)
		}
	})
}

func TestQuantileIsWithinItsResolution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Latencies
		n := rapid.IntRange(100, 3000).Draw(t, "n")
		p := rapid.SampledFrom([]float64{0.5, 0.9, 0.95, 0.99}).Draw(t, "p")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var all []time.Duration
		for range n {
			d := time.Duration(math.Exp(rng.Float64()*18) * float64(time.Microsecond))
			l.Observe(5, d)
			all = append(all, d)
		}
		all = all[max(0, n-window):]
		slices.Sort(all)
		want := min(all[int(math.Ceil(p*float64(len(all))-1e-9))-1], 1<<maxBits*time.Microsecond)
		got := l.Quantile(p, 5)
		assert.InDelta(t, float64(want), float64(got), 0.032*float64(want)+float64(2*time.Microsecond))
	})
}

func TestQuantileForgetsWhatLeftTheWindow(t *testing.T) {
	var l Latencies
	for range window {
		l.Observe(1, time.Second)
	}
	assert.InDelta(t, float64(time.Second), float64(l.Quantile(0.99, 1)), 0.032*float64(time.Second))
	for range window {
		l.Observe(1, time.Millisecond)
	}
	assert.InDelta(t, float64(time.Millisecond), float64(l.Quantile(0.99, 1)), 0.032*float64(time.Millisecond))
}

func TestQuantileFallsBackUntilItKnows(t *testing.T) {
	var l Latencies
	observe := func(size int, d time.Duration, n int) {
		for range n {
			l.Observe(size, d)
		}
	}
	near := func(want, got time.Duration, what string) {
		assert.InDelta(t, float64(want), float64(got), 0.032*float64(want), what)
	}
	assert.Equal(t, Fallback, l.Quantile(0.99, 10), "nothing is known")
	observe(1, 30*time.Millisecond, 99)
	assert.Equal(t, Fallback, l.Quantile(0.99, 10), "99 answers are not enough for 99p")
	_, ok := l.Usual(0.5, 10)
	assert.False(t, ok)
	observe(1, 30*time.Millisecond, 1)
	near(30*time.Millisecond, l.Quantile(0.99, 10), "a smaller class is a lower bound")
	observe(26, 50*time.Millisecond, 100)
	near(50*time.Millisecond, l.Quantile(0.99, 10), "a larger class is an upper bound, and better")
	observe(8, 5*time.Millisecond, 100)
	near(5*time.Millisecond, l.Quantile(0.99, 10), "the class itself")
	median, ok := l.Usual(0.5, 11)
	assert.True(t, ok)
	near(5*time.Millisecond, median, "the class of 8 to 11 keys")
	observe(7, 40*time.Millisecond, 100)
	median, ok = l.Usual(0.5, 7)
	assert.True(t, ok)
	near(5*time.Millisecond, median, "larger groups take no less, so 40 ms are of a slow host")
	near(40*time.Millisecond, l.Quantile(0.5, 7), "what was seen of the class")

	var small Latencies
	for range 100 {
		small.Observe(1, time.Millisecond)
	}
	assert.Equal(t, Fallback, small.Quantile(0.99, 10), "a smaller class cannot bring the delay below the fallback")
}

func TestCellsAreInOrderAndHoldWhatTheyName(t *testing.T) {
	for cell := 1; cell < cells; cell++ {
		assert.Greater(t, valueOf(cell), valueOf(cell-1))
		assert.Equal(t, uint16(cell), cellOf(valueOf(cell)))
	}
	assert.Equal(t, uint16(cells-1), cellOf(time.Hour))
	assert.Equal(t, uint16(0), cellOf(-1))
}

func TestBudgetNeverExceedsItsBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := Limits{
			Ratio: rapid.Float64Range(0.001, 1).Draw(rt, "ratio"),
			Burst: rapid.IntRange(0, 1000).Draw(rt, "burst"),
			Floor: rapid.Float64Range(0, 20).Draw(rt, "floor"),
		}
		steps := rapid.SliceOfN(rapid.IntRange(0, 200), 1, 300).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			b := NewPool(l)
			begin := time.Now()
			deposited, taken, largest := 0, 0, 0
			for i, n := range steps {
				switch i % 3 {
				case 0:
					b.Deposit(n)
					deposited += n
				case 1:
					if b.Withdraw(n) {
						taken += n
						largest = max(largest, n)
					}
				case 2:
					time.Sleep(time.Duration(n) * 10 * time.Millisecond)
				}
			}
			bound := l.Ratio*float64(deposited) + l.Floor*time.Since(begin).Seconds() + float64(l.Burst)/2 + float64(largest)
			assert.LessOrEqual(t, float64(taken), bound+1e-3)
		})
	})
}

func TestBudgetFloorLetsAQuietTableHedge(t *testing.T) {
	for name, tt := range map[string]struct {
		floor float64
		want  int
	}{
		"a floor of five a second": {5, 50},
		"control: no floor":        {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewPool(Limits{Ratio: 0.02, Floor: tt.floor, Burst: 0})
				taken := 0
				for range 10_000 {
					if b.Withdraw(1) {
						taken++
					}
					time.Sleep(time.Millisecond)
				}
				assert.Equal(t, tt.want, taken)
			})
		})
	}
}

func TestBudgetFloorIsNotOnTopOfTheRatio(t *testing.T) {
	for name, tt := range map[string]struct {
		deposit int // each second
		want    float64
	}{
		"a busy table is held to the ratio":  {1000, 20},
		"a quiet table is held to the floor": {50, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := Limits{Ratio: 0.02, Floor: 5, Burst: 100}
				b := NewPool(l)
				taken := 0.0
				for range 3600 * 100 {
					b.Deposit(tt.deposit / 50)
					time.Sleep(20 * time.Millisecond)
					for b.Withdraw(1) {
						taken++
					}
				}
				assert.InDelta(t, tt.want*7200, taken, float64(2*l.Burst+1))
			})
		})
	}
}

func TestBudgetOfNothingAllowsNothing(t *testing.T) {
	a := NewBudget(0)
	a.Deposit(1_000_000, 1_000_000)
	assert.False(t, a.Withdraw(Wanted{Keys: 1, SubQueries: 1, Quiet: true}))
}

func TestBudgetOfHedgesTakesBothOrNeither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBudget(0.02)
		for a.subQueries.Withdraw(1) {
		}
		saved := a.keys.Saved()
		assert.False(t, a.Withdraw(Wanted{Keys: 10, SubQueries: 1, Quiet: true}))
		assert.Equal(t, saved, a.keys.Saved(), "keys are given back when sub-queries are short")
		a.Deposit(0, 20)
		assert.False(t, a.Withdraw(Wanted{Keys: 10, SubQueries: 1, Quiet: true}), "the floor that was drawn on overdraws the pool")
	})
}

// TestARefusedHedgeLeavesAllPoolsAsTheyWere has keys and, under load, the load pool lend from
// their floors before the sub-queries turn out to be short.
func TestARefusedHedgeLeavesAllPoolsAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBudget(0.02)
		time.Sleep(time.Second)
		for _, p := range []*Pool{a.keys, a.load} {
			p.overdraw(100_000) // as far as it goes
		}
		a.subQueries.overdraw(100_000)
		for a.subQueries.Withdraw(1) {
		}
		type state struct {
			saved   float64
			floorAt int64
		}
		of := func() (all []state) {
			for _, p := range []*Pool{a.keys, a.load} {
				all = append(all, state{p.Saved(), p.floorAt.Load()})
			}
			return all
		}
		before := of()
		assert.False(t, a.Withdraw(Wanted{Keys: 10, SubQueries: 1, Quiet: true, Load: true}))
		assert.Equal(t, before, of())
	})
}

func TestRescuesAreWithinTheShareOfSubQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBudget(0.02)
		for a.subQueries.Withdraw(1) {
		}
		saved := a.rescues.Saved()
		assert.False(t, a.Rescue(Wanted{Keys: 10, SubQueries: 2, Urgent: true}))
		assert.Equal(t, saved, a.rescues.Saved(), "keys are given back when sub-queries are short")
		a.Deposit(0, 80)
		assert.True(t, a.Rescue(Wanted{Keys: 10, SubQueries: 2, Urgent: true}))
		assert.Equal(t, saved-10, a.rescues.Saved())
		assert.False(t, a.Rescue(Wanted{Keys: 10, SubQueries: 2, Urgent: true}))
	})
}

// Under load four fifths of the share are available, as they come and less what probes
// overdraw. What was saved up is left for hosts that answer nobody.
func TestUnderLoadNothingThatWasSavedUpIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBudget(0.02)
		take := func(load bool) (n int) {
			for a.Withdraw(Wanted{Keys: 1, SubQueries: 1, Quiet: true, Load: load}) {
				n++
			}
			return n
		}
		assert.Equal(t, 6, take(true), "half of ten, and the floor")
		for range 3 {
			assert.True(t, a.Probe(true), "they may overdraw")
		}
		a.Deposit(0, 200)
		assert.Equal(t, 4, take(true), "four fifths of ten, less one that the floor lent and three probes")
		saved := a.load.Saved()
		for a.keys.Withdraw(1) {
		}
		a.Deposit(0, 50)
		assert.False(t, a.Withdraw(Wanted{Keys: 1, SubQueries: 1, Quiet: true, Load: true}))
		assert.Equal(t, saved+2, a.load.Saved(), "given back when keys are short")
		assert.False(t, a.Rescue(Wanted{Keys: 1, SubQueries: 3, Load: true}))
		assert.True(t, a.Rescue(Wanted{Keys: 1, SubQueries: 3}), "without load there is enough")
		for a.Probe(true) {
		}
		assert.Equal(t, -20.0, a.load.Saved(), "but not without end")
		time.Sleep(time.Second)
		assert.True(t, a.Probe(true), "there is a floor")
		assert.False(t, a.Probe(true))
		a.Deposit(5000, 0)
		assert.True(t, a.Withdraw(Wanted{Keys: 1, SubQueries: 1, Quiet: true, Load: true, Stalled: true}))
		assert.True(t, NewBudget(0).Probe(true), "where nothing is hedged, too")
		assert.Greater(t, take(false), 40, "what was saved up is there for those that answer nobody")
	})
}

// Probes and hedges together keep to one share: what probes take, hedges do not get. Probes
// leave the reserve to hedges, and are sent without it.
func TestProbesAndHedgesShareTheSubQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hedges := func(a *Budget) (n int) {
			for a.Withdraw(Wanted{SubQueries: 1, Quiet: true}) {
				n++
			}
			return n
		}
		for _, load := range []bool{false, true} {
			alone, beside := NewBudget(0.02), NewBudget(0.02)
			for range 10 {
				assert.True(t, beside.Probe(load))
			}
			assert.Equal(t, hedges(alone)-10, hedges(beside), "load %t", load)
		}
		a := NewBudget(0.02)
		for range 1000 {
			assert.True(t, a.Probe(false), "sent in any case")
		}
		assert.Equal(t, subQueryReserve+1, hedges(a), "the reserve, and the floor")
	})
}

func TestUsualStragglersLeaveAReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBudget(0.02)
		take := func(still bool) (n int) {
			for a.Withdraw(Wanted{Keys: 10, SubQueries: 1, Quiet: still}) {
				n++
			}
			return n
		}
		// One more of each comes from the floor.
		assert.Equal(t, 11, take(false), "of 500 keys 400 are left")
		assert.Zero(t, take(false))
		assert.Equal(t, 39, take(true), "less the ten that the floor lent")
		assert.Zero(t, take(true))
	})
}

func TestBudgetIsExactUnderConcurrency(t *testing.T) {
	b := NewPool(Limits{Ratio: 1, Burst: 1_000_000})
	for b.Withdraw(1000) {
	}
	var wg sync.WaitGroup
	taken := make([]int, 8)
	for i := range taken {
		wg.Go(func() {
			for range 1000 {
				b.Deposit(1)
				if b.Withdraw(2) {
					taken[i] += 2
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range taken {
		sum += n
	}
	assert.Equal(t, float64(8000-sum), b.Saved())
}

func BenchmarkObserve(b *testing.B) {
	b.ReportAllocs()
	var l Latencies
	for i := range b.N {
		l.Observe(9, time.Duration(i%1000)*10*time.Microsecond)
	}
}

func BenchmarkDelay(b *testing.B) {
	b.ReportAllocs()
	var l Latencies
	for i := range window {
		l.Observe(9, time.Duration(i)*10*time.Microsecond)
	}
	p, err := ParsePolicy("MIN(99p,15ms)")
	require.NoError(b, err)
	for range b.N {
		p.Delay(&l, 9)
	}
}
