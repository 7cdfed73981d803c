package hedge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrPolicy is wrapped by every error of ParsePolicy.
var ErrPolicy = errors.New("invalid speculative_retry")

const allowedPolicies = "use NONE, ALWAYS, a delay such as 15ms, a percentile such as 99p, MIN(99p,15ms) or MAX(99p,15ms)"

// maxDelay is the longest delay; a longer one is a wrong unit.
const maxDelay = time.Hour

// ParsePolicy parses a policy written as Cassandra's table option speculative_retry, in
// upper or lower case: NONE or NEVER; ALWAYS; a delay such as 15ms; a percentile such as
// 99p, 99.9p or 99PERCENTILE; MIN or MAX of one delay and one percentile, in either order.
// It refuses CUSTOM, which names a class of the server. Errors wrap ErrPolicy and list what
// is allowed.
func ParsePolicy(s string) (Policy, error) {
	word := strings.ToUpper(strings.TrimSpace(s))
	switch word {
	case "NONE", "NEVER":
		return Policy{}, nil
	case "ALWAYS":
		return Policy{kind: always}, nil
	}
	for prefix, k := range map[string]kind{"MIN(": minimum, "MAX(": maximum} {
		if args, ok := strings.CutPrefix(word, prefix); ok {
			return parseHybrid(s, k, args)
		}
	}
	return parseSimple(s, word)
}

// parseHybrid parses the arguments of MIN or MAX and the closing parenthesis.
func parseHybrid(s string, k kind, args string) (Policy, error) {
	args, closed := strings.CutSuffix(args, ")")
	first, second, two := strings.Cut(args, ",")
	if !closed || !two || strings.Contains(second, ",") {
		return Policy{}, refuse(s, "MIN and MAX take two values in parentheses")
	}
	a, err := parseSimple(s, strings.TrimSpace(first))
	if err != nil {
		return Policy{}, err
	}
	b, err := parseSimple(s, strings.TrimSpace(second))
	if err != nil {
		return Policy{}, err
	}
	if a.kind == b.kind {
		return Policy{}, refuse(s, "MIN and MAX take one delay and one percentile")
	}
	return Policy{kind: k, delay: max(a.delay, b.delay), quantile: max(a.quantile, b.quantile)}, nil
}

// parseSimple parses a delay or a percentile in upper case.
func parseSimple(s, word string) (Policy, error) {
	if digits, ok := strings.CutSuffix(word, "MS"); ok {
		ms, err := decimal(digits)
		d := time.Duration(ms * float64(time.Millisecond))
		switch {
		case err != nil:
			return Policy{}, refuse(s, "a delay is a number of milliseconds")
		case d <= 0:
			return Policy{}, refuse(s, "a delay must be above 0ms; to ask a second replica at once say ALWAYS")
		case ms > float64(maxDelay/time.Millisecond):
			return Policy{}, refuse(s, "a delay may not exceed an hour")
		}
		return Policy{kind: fixed, delay: d}, nil
	}
	digits, ok := strings.CutSuffix(word, "PERCENTILE")
	if !ok {
		digits, ok = strings.CutSuffix(word, "P")
	}
	if !ok {
		if strings.HasPrefix(word, "CUSTOM") {
			return Policy{}, refuse(s, "CUSTOM names a class of the server, which the proxy cannot run")
		}
		return Policy{}, refuse(s, "unknown word")
	}
	v, err := decimal(digits)
	if err != nil || v <= 0 || v >= 100 {
		return Policy{}, refuse(s, "a percentile is a number between 0 and 100, both excluded")
	}
	return Policy{kind: percentile, quantile: v / 100}, nil
}

// decimal parses digits with at most one point. It rejects what ParseFloat would also
// accept: signs, exponents, hexadecimal, NaN and Inf.
func decimal(s string) (float64, error) {
	for _, c := range s {
		if c != '.' && (c < '0' || c > '9') {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.ParseFloat(s, 64)
}

func refuse(s, why string) error {
	return fmt.Errorf("%w %q: %s; %s", ErrPolicy, s, why, allowedPolicies)
}
