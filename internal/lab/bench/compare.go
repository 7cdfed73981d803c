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

// Contender is one side of a comparison: a target of a driver.
type Contender struct {
	// Driver opens and measures the target.
	Driver *Driver
	// Target is the name of the target, one of Targets.
	Target string
	// Condition distinguishes contenders with the same target; may be empty.
	Condition string
	// As is the contender's name in reports; empty for Target. The name of a proxy begins with
	// "proxy-".
	As string
}

// Name returns the name of a contender in reports.
func (o *Contender) Name() string { return cmp.Or(o.As, o.Target) }

// Comparison says how contenders are measured. A zero SLA means that there is none.
type Comparison struct {
	// Load says how lookups arrive; ignored when Ramp is set.
	Load Load
	// Ramp, when not nil, finds the highest rate at which the SLA holds.
	Ramp *Ramp
	// Rounds is the number of turns of each contender, at least 1.
	Rounds int
	// Warmup is the longest time for which each contender is loaded before the first round. Length is
	// the duration of a round or, with Ramp, of each stage.
	Warmup, Length time.Duration
	// SLA is what a ramp must keep. Its target is the latency above which a lookup is late.
	SLA report.SLA
	// Seed is the seed from which lookups are drawn. Round n of each contender makes the same lookups.
	Seed uint64
	// MustAnswer ends the comparison with ErrUnanswered when no lookup of a contender is answered in a
	// round or a turn of the warm-up; with Ramp, of the warm-up only.
	MustAnswer bool
	// Progress is called when a round, stage or turn begins, and when a round ends; may be nil.
	Progress func(Progress)
}

// Progress describes what a measurement is doing.
type Progress struct {
	Contender
	// Round is counted from 1 to Rounds; 0 is warm-up.
	Round, Rounds int
	// Rate is the rate of the stage of a ramp, in lookups per second; 0 without a ramp.
	Rate float64
	// Done is the result of the round; nil when the round has just begun.
	Done *report.Round
}

// Compare measures contenders in turns, A B A B, and returns a run for each, in their order. It
// fails when ctx ends, and as MustAnswer says.
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

// answered returns ErrUnanswered, with the most frequent reason, if no lookup of the round was
// answered and MustAnswer is set.
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

// late returns the latency above which a lookup is late; 0 means that none is.
func (c *Comparison) late() time.Duration {
	return time.Duration(c.SLA.TargetSeconds * float64(time.Second))
}

// warm loads the contenders in turns, each for one stage. It ends when a turn of all is less than a
// twentieth faster than the one before and the nodes' JIT compilers are nearly idle, or when each
// contender was loaded for Warmup. Nodes that have just been booted are many times slower until
// their code is compiled, which takes longer the more nodes share a machine. So they are left alone
// after each turn until they have compiled.
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
			latency += math.Log(r.Latency.Mean) // so that slow contenders do not dominate
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

// warmStage is how long a contender is loaded in one turn of the warm-up.
const warmStage = 3 * time.Second

// settle is the pause before each stage of a ramp.
const settle = 500 * time.Millisecond

// warmup returns the load of the warm-up: that of the rounds or, with a ramp, a closed loop.
func (c *Comparison) warmup() Load {
	if c.Ramp != nil {
		return Load{Concurrency: 4}
	}
	return c.Load
}

// measure measures one round: a period of the load, or the best stage of a ramp.
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
		// Let the backlog of a failed stage drain, so that it does not disturb the next one.
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
		return o.round(ctx, Load{Rate: rate}, c.Length, seed, c.late())
	})
}
