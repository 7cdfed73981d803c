package executor

import (
	"math"
	"time"

	"github.com/qosproxy/qosproxy/internal/planner"
)

// never is a duration that no wait reaches.
const never = time.Duration(math.MaxInt64)

// setup is what a bench is made from.
type setup struct {
	Config
	// without names the safeguards that a control lacks.
	without safeguards
}

// safeguards are named after what they turn off.
type safeguards struct {
	budgets, reserve, suspects, failover, cancel, ejection, overtaking, stalls, gone, warming, sparing, standing, slow, rescue bool
}

// executor returns one whose policies lack the safeguards.
func (s *setup) executor() *Executor {
	if s.Avoidance == AvoidNothing {
		return New(s.Config)
	}
	p, without := defaultPolicies(), s.without
	if without.budgets {
		p.mayHedge = func(*run, *attempt, []planner.Group, bool, int64) NotHedged { return "" }
		p.mayRetry = func(_ *TableState, keys int, _ Reason) int { return keys }
	}
	if without.reserve {
		p.quietAfter = 0
	}
	if without.suspects {
		p.avoid = func(_ *Executor, h *host, _ int64, _ signs) bool { return h.full(1) || h.is(Ejected) }
	}
	if without.suspects || without.stalls {
		p.stallAfter = never
	}
	if without.failover {
		p.mayRetry = func(*TableState, int, Reason) int { return 0 }
	}
	if without.cancel {
		p.abandon = func(*attempt) {}
	}
	if without.ejection {
		s.Limits.EjectAfter = math.MaxInt
	}
	if without.overtaking {
		p.overtakenAfter = math.MaxInt
	}
	if without.gone {
		p.reachable = func(*host) bool { return true }
	}
	if without.warming {
		p.probeKeys, p.coldRelative = 1, math.Inf(1)
	}
	if without.sparing {
		p.manyLate = 1
	}
	if without.standing {
		p.hedgeStalledAfter = never
	}
	if without.slow {
		p.slowRelative = math.Inf(1)
	}
	if without.rescue {
		p.rescueFrom = 2
	}
	return newExecutor(s.Config, p)
}
