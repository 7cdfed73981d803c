package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Contender is a target of a driver that takes part in a comparison.
type Contender struct {
	// Driver has the target.
	Driver *Driver
	// Target is its name, one of Targets.
	Target string
	// Condition tells it apart from others of the same target; may be empty.
	Condition string
	// As is its name in reports; empty for Target. That of a proxy begins with "proxy-".
	As string
}

// Name is what a contender is called in reports.
func (o *Contender) Name() string { return cmp.Or(o.As, o.Target) }

// Comparison says how contenders are measured. The zero value of SLA is none.
type Comparison struct {
	// Load is how lookups arrive; ignored with Ramp.
	Load Load
	// Ramp, when not nil, finds the highest rate at which the SLA holds.
	Ramp *Ramp
	// Rounds is how often each contender has its turn, at least 1.
	Rounds int
	// Warmup is how long each is loaded at most before the first round, and Length
	// how long a round is (with Ramp: each of its stages).
	Warmup, Length time.Duration
	// SLA is what a ramp must keep and what lookups are late by.
	SLA report.SLA
	// Seed is that of the draws; round n of each makes the same lookups.
	Seed uint64
	// MustAnswer ends the comparison, by ErrUnanswered, with the first warm-up or round in which
	// no lookup of a contender got an answer: there is nothing to compare.
	MustAnswer bool
	// Progress is told what is going on; nil tells nobody.
	Progress func(Progress)
}

// Progress is what a measurement is doing.
type Progress struct {
	Contender
	// Round is counted from 1 to Rounds; 0 is warm-up.
	Round, Rounds int
	// Rate is that of a stage of a ramp in lookups per second, else 0.
	Rate float64
	// Done is what the round has shown; nil when it has just begun.
	Done *report.Round
}

// Compare measures contenders in turns, A B A B, and returns a run for each, in
// their order. It ends early with the error of ctx, and by MustAnswer.
func Compare(ctx context.Context, contenders []Contender, c Comparison) ([]report.Run, error) {
	if len(contenders) == 0 || c.Rounds < 1 {
		return nil, errors.New("nothing to measure: name at least one target and one round")
	}
	tell := c.Progress
	if tell == nil {
		tell = func(Progress) {}
	}
	if err := c.warm(ctx, contenders, tell); err != nil {
		return nil, err
	}
	runs := make([]report.Run, len(contenders))
	for i, one := range contenders {
		runs[i] = report.Run{Target: one.Name(), Condition: one.Condition}
	}
	for n := range c.Rounds {
		for i, one := range contenders {
			at := Progress{Contender: one, Round: n + 1, Rounds: c.Rounds}
			tell(at)
			r, err := one.measure(ctx, &c, c.Seed+uint64(n), func(rate float64) {
				at.Rate = rate
				tell(at)
			})
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", one.Name(), n+1, err)
			}
			runs[i].Rounds = append(runs[i].Rounds, r)
			at.Done = &r
			tell(at)
		}
	}
	return runs, nil
}

// ErrUnanswered means that a contender answered no lookup at all.
var ErrUnanswered = errors.New("no lookup was answered")

// answered returns an error if a round must have answers and has none. It has the reason that
// was given most often.
func (c *Comparison) answered(r *report.Round) error {
	if !c.MustAnswer || r.Counts.Lookups == 0 || r.Counts.OK+r.Counts.Partial > 0 {
		return nil
	}
	reason, most := "without a reason", int64(0)
	for text, n := range r.Counts.Errors {
		if n > most || n == most && text < reason {
			reason, most = text, n
		}
	}
	return fmt.Errorf("%w of %d: %s", ErrUnanswered, r.Counts.Lookups, reason)
}

// late is the latency above which a lookup is late; 0 for never.
func (c *Comparison) late() time.Duration {
	return time.Duration(c.SLA.TargetSeconds * float64(time.Second))
}

// warm loads the contenders in turns, a stage each, until a turn is no faster than
// the one before by a twentieth and the nodes' compilers have come to rest, or each
// was loaded for Warmup. Nodes that have just been booted are many times slower until
// their code is compiled, which takes the longer the more of them share a machine; so
// they are left alone after each turn until they have compiled what it called for.
func (c *Comparison) warm(ctx context.Context, contenders []Contender, tell func(Progress)) error {
	stage := min(c.Warmup, warmStage)
	before := math.Inf(1)
	for turn := uint64(1); time.Duration(turn)*stage <= c.Warmup && c.Warmup > 0; turn++ {
		var latency, cpu, compiling float64
		for _, one := range contenders {
			tell(Progress{Contender: one, Rounds: c.Rounds})
			// Other seeds than those of the rounds.
			r, err := one.round(ctx, c.warmup(), stage, c.Seed-turn, c.late())
			if err == nil {
				err = c.answered(&r)
			}
			if err != nil {
				return fmt.Errorf("%s, warm-up: %w", one.Name(), err)
			}
			latency += math.Log(r.Latency.Mean) // so that the slow ones do not decide alone
			all, jit := r.CassandraCPU()
			cpu, compiling = cpu+all, compiling+jit
		}
		latency /= float64(len(contenders))
		if latency > before+math.Log(0.95) && compiling <= cpu/20 {
			return nil
		}
		before = latency
		if err := contenders[0].Driver.meter.compiled(ctx, stage*time.Duration(len(contenders))); err != nil {
			return err
		}
	}
	return nil
}

// warmStage is how long a contender is loaded at a time while warming up.
const warmStage = 3 * time.Second

// settle is the pause before each stage of a ramp.
const settle = 500 * time.Millisecond

// warmup is the load before the first round: that of the rounds, or a closed loop
// where a ramp has yet to find a rate.
func (c *Comparison) warmup() Load {
	if c.Ramp != nil {
		return Load{Concurrency: 4}
	}
	return c.Load
}

// measure measures one round: a stretch of the load, or a climb.
func (o *Contender) measure(ctx context.Context, c *Comparison, seed uint64, stage func(rate float64)) (report.Round, error) {
	if c.Ramp == nil {
		r, err := o.round(ctx, c.Load, c.Length, seed, c.late())
		if err == nil {
			err = c.answered(&r)
		}
		return r, err
	}
	return c.Ramp.climb(c.SLA, func(rate float64) (report.Round, error) {
		stage(rate)
		// What a stage that failed has left behind is not the next one's fault.
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
		return o.round(ctx, Load{Rate: rate}, c.Length, seed, c.late())
	})
}
