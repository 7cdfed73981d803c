package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAComparisonEndsWhenNothingIsAnswered(t *testing.T) {
	denied := func(_ context.Context, l *Lookup) Outcome {
		time.Sleep(time.Millisecond)
		return Outcome{Failed: len(l.Keys), Err: errors.New("PermissionDenied: not listed")}
	}
	load := Load{Concurrency: 2}
	for name, tc := range map[string]struct {
		c     Comparison
		do    func(n int) bool // whether the n-th lookup is answered
		says  string
		takes time.Duration
	}{
		"in a warm-up":                 {Comparison{Load: load, Rounds: 2, Warmup: 30 * time.Second, Length: time.Second, MustAnswer: true}, func(int) bool { return false }, "in, warm-up: no lookup was answered of 6000: PermissionDenied: not listed", warmStage},
		"in a round":                   {Comparison{Load: load, Rounds: 2, Length: time.Second, MustAnswer: true}, func(int) bool { return false }, "in, round 1: no lookup was answered of 2000: PermissionDenied: not listed", time.Second},
		"in a later round":             {Comparison{Load: load, Rounds: 3, Length: time.Second, MustAnswer: true}, func(n int) bool { return n <= 2000 }, "in, round 2: no lookup", 2 * time.Second},
		"but not when one is answered": {Comparison{Load: load, Rounds: 1, Length: time.Second, MustAnswer: true}, func(n int) bool { return n == 7 }, "", time.Second},
		"nor unless it is asked for":   {Comparison{Load: load, Rounds: 2, Length: time.Second}, func(int) bool { return false }, "", 2 * time.Second},
		"before a ramp":                {Comparison{Ramp: DefaultRamp(), Rounds: 1, Warmup: 3 * time.Second, Length: time.Second, MustAnswer: true}, func(int) bool { return false }, "in, warm-up: no lookup was answered", warmStage},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := &scripted{}
				target.do = func(ctx context.Context, l *Lookup) Outcome {
					target.mu.Lock()
					n := target.n
					target.mu.Unlock()
					o := denied(ctx, l)
					if tc.do(n) {
						return Outcome{}
					}
					return o
				}
				begin := time.Now()
				_, err := Compare(t.Context(), driverOf(t, map[string]Target{In: target}).Contenders("", In), tc.c)
				assert.InDelta(t, tc.takes.Seconds(), time.Since(begin).Seconds(), 0.1)
				if tc.says == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrUnanswered)
				assert.ErrorContains(t, err, tc.says)
			})
		})
	}
}
