// Package hedge decides how long a read may take before it is hedged, and how many hedges
// are allowed. It contains the delay policies, written as Cassandra's speculative_retry,
// the latencies that they use, and the budgets that keep hedges from adding to an overload.
package hedge

import (
	"strconv"
	"time"
)

// kind is the form of a policy.
type kind uint8

const (
	never kind = iota
	always
	fixed
	percentile
	minimum
	maximum
)

// Policy says how long to wait for a first attempt before hedging it. The
// zero Policy is NONE. Policies are comparable with ==.
type Policy struct {
	kind  kind
	delay time.Duration
	// quantile is the percentile as a fraction, 0.99 for 99p.
	quantile float64
}

// Fixed returns the policy that hedges after d. If d is zero or negative, it returns NONE:
// ALWAYS, which hedges at once, must be chosen by name.
func Fixed(d time.Duration) Policy {
	if d <= 0 {
		return Policy{}
	}
	return Policy{kind: fixed, delay: d}
}

// Delay returns how long to wait before hedging a group of size keys, which is 0 for ALWAYS.
// ok is false for NONE, which never hedges. Only policies with a percentile use the latencies;
// for the others they may be nil.
func (p Policy) Delay(l *Latencies, size int) (d time.Duration, ok bool) {
	switch p.kind {
	case always:
		return 0, true
	case fixed:
		return p.delay, true
	case percentile:
		return l.Quantile(p.quantile, size), true
	case minimum:
		return min(p.delay, l.Quantile(p.quantile, size)), true
	case maximum:
		return max(p.delay, l.Quantile(p.quantile, size)), true
	case never:
	}
	return 0, false
}

// FixedDelay returns the constant delay of the policy, such as 15ms of MIN(99p,15ms), or 0.
func (p Policy) FixedDelay() time.Duration { return p.delay }

// Always reports whether the policy is ALWAYS. It asks a second replica for every key at
// once, so no budget applies to it.
func (p Policy) Always() bool { return p.kind == always }

// String returns the policy in its canonical form, which ParsePolicy reads:
// NONE, ALWAYS, 15ms, 99p, MIN(99p,15ms) or MAX(99p,15ms).
func (p Policy) String() string {
	switch p.kind {
	case always:
		return "ALWAYS"
	case fixed:
		return p.millis()
	case percentile:
		return p.percent()
	case minimum:
		return "MIN(" + p.percent() + "," + p.millis() + ")"
	case maximum:
		return "MAX(" + p.percent() + "," + p.millis() + ")"
	case never:
	}
	return "NONE"
}

func (p Policy) millis() string {
	return strconv.FormatFloat(float64(p.delay)/float64(time.Millisecond), 'f', -1, 64) + "ms"
}

func (p Policy) percent() string {
	// Round to ten decimals, so that 99.9 does not come back as 99.90000000000001.
	v, _ := strconv.ParseFloat(strconv.FormatFloat(p.quantile*100, 'f', 10, 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64) + "p"
}

// MarshalText returns the canonical form.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses text as ParsePolicy does.
func (p *Policy) UnmarshalText(text []byte) error {
	v, err := ParsePolicy(string(text))
	if err != nil {
		return err
	}
	*p = v
	return nil
}
