// Package explain defines the JSON form of a plan and of an explained lookup, for both the HTTP
// API and the command line. It decides nothing but names and units.
package explain

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Plan is how the keys of a lookup would be read.
type Plan struct {
	Keys     []Key   `json:"keys"`
	Groups   []Group `json:"groups"`
	Hosts    []Host  `json:"hosts"`
	Stressed bool    `json:"stressed"`
	// Quorum is set when the proxy asks a quorum of the replicas of each key and compares their
	// answers. Fallback is why it does not on a table configured for it.
	Quorum   bool   `json:"quorum,omitempty"`
	Fallback string `json:"fallback,omitempty"`
	// StatementCostMS and KeyCostMS are in milliseconds, nil until they are known. GroupSize is
	// in keys, 0 while the planner decides by the number of keys.
	StatementCostMS *float64 `json:"statement_cost_ms,omitempty"`
	KeyCostMS       *float64 `json:"key_cost_ms,omitempty"`
	GroupSize       int32    `json:"group_size,omitempty"`
}

// Explanation is how a lookup was read. Times are in milliseconds from its start; a deadline is
// nil where there was none.
type Explanation struct {
	Plan
	Attempts       []Attempt `json:"attempts"`
	DeadlineMS     *float64  `json:"deadline_ms,omitempty"`
	SoftDeadlineMS *float64  `json:"soft_deadline_ms,omitempty"`
}

// Key is a key of the request, by position. Token is a string, since JavaScript rounds
// integers above 2^53. Group is nil when no host is asked for the key.
type Key struct {
	Token    string   `json:"token"`
	Replicas []string `json:"replicas"`
	Group    *int32   `json:"group"`
	// Groups are all groups with the key, set when a quorum of its replicas is asked. Compared
	// is the result of comparing their answers, such as matched.
	Groups   []int32 `json:"groups,omitempty"`
	Compared string  `json:"compared,omitempty"`
}

// Group is the keys that one host is asked for, by their positions.
type Group struct {
	Host string  `json:"host"`
	DC   string  `json:"dc"`
	Rack string  `json:"rack"`
	Keys []int32 `json:"keys"`
}

// Host is a replica of some key. Avoided is why it is asked only for keys that have no
// other replica; empty when it is not avoided.
type Host struct {
	Host    string `json:"host"`
	DC      string `json:"dc"`
	Rack    string `json:"rack"`
	Avoided string `json:"avoided,omitempty"`
}

// Attempt is one sending of a sub-query.
type Attempt struct {
	Host    string  `json:"host"`
	Kind    string  `json:"kind"`
	Keys    []int32 `json:"keys"`
	StartMS float64 `json:"start_ms"`
	EndMS   float64 `json:"end_ms"`
	Outcome string  `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	// HedgeAfterMS is null when the attempt is never hedged.
	HedgeAfterMS *float64 `json:"hedge_after_ms"`
	NotHedged    string   `json:"not_hedged,omitempty"`
	// OwnData is set when the host was asked for what it has on its own disk.
	OwnData bool `json:"own_data,omitempty"`
	// StatementKeys is how many keys the statement had that it shared with other lookups.
	StatementKeys int32 `json:"statement_keys,omitempty"`
}

// NewPlan returns the JSON form of p; a nil p gives an empty plan.
func NewPlan(p *qosproxyv1.Plan) Plan {
	out := Plan{
		Keys: []Key{}, Groups: []Group{}, Hosts: []Host{}, Stressed: p.GetStressed(), Quorum: p.GetQuorum(), Fallback: p.GetFallback(),
		StatementCostMS: optional(p.GetStatementCost()), KeyCostMS: optional(p.GetKeyCost()), GroupSize: p.GetGroupSize(),
	}
	for _, k := range p.GetKeys() {
		key := Key{Token: strconv.FormatInt(k.GetToken(), 10), Replicas: append([]string{}, k.GetReplicas()...), Group: k.Group, Compared: k.GetCompared()}
		if p.GetQuorum() {
			key.Groups = k.GetGroups()
		}
		out.Keys = append(out.Keys, key)
	}
	for _, g := range p.GetGroups() {
		h := g.GetHost()
		out.Groups = append(out.Groups, Group{h.GetAddress(), h.GetDatacenter(), h.GetRack(), append([]int32{}, g.GetKeys()...)})
	}
	for _, planned := range p.GetHosts() {
		h := planned.GetHost()
		out.Hosts = append(out.Hosts, Host{h.GetAddress(), h.GetDatacenter(), h.GetRack(), planned.GetAvoided()})
	}
	return out
}

// New returns the JSON form of e; nil when e is nil.
func New(e *qosproxyv1.Explanation) *Explanation {
	if e == nil {
		return nil
	}
	out := &Explanation{
		Plan: NewPlan(e.GetPlan()), Attempts: []Attempt{},
		DeadlineMS: optional(e.GetDeadline()), SoftDeadlineMS: optional(e.GetSoftDeadline()),
	}
	for _, a := range e.GetAttempts() {
		out.Attempts = append(out.Attempts, Attempt{
			a.GetHost(), Word(a.GetKind()), append([]int32{}, a.GetKeys()...), millis(a.GetStart()), millis(a.GetEnd()), Word(a.GetOutcome()), a.GetError(),
			optional(a.GetHedgeAfter()), a.GetNotHedged(), a.GetOwnData(), a.GetStatementKeys()})
	}
	return out
}

// The prefixes of the names of enum values.
const kindPrefix, outcomePrefix = "ATTEMPT_KIND_", "ATTEMPT_OUTCOME_"

// Word returns the kind or outcome of an attempt in one word, such as first.
func Word(v fmt.Stringer) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(v.String(), kindPrefix), outcomePrefix))
}

// Kind returns the kind with a word; an error when there is none.
func Kind[W ~string](word W) (qosproxyv1.AttemptKind, error) {
	n, err := number(qosproxyv1.AttemptKind(0).Descriptor(), kindPrefix, string(word))
	return qosproxyv1.AttemptKind(n), err
}

// Outcome returns the outcome with a word; an error when there is none.
func Outcome[W ~string](word W) (qosproxyv1.AttemptOutcome, error) {
	n, err := number(qosproxyv1.AttemptOutcome(0).Descriptor(), outcomePrefix, string(word))
	return qosproxyv1.AttemptOutcome(n), err
}

// Avoidance returns the value with a word, unspecified for an empty word. It returns an error
// when no value has the word.
func Avoidance[W ~string](word W) (qosproxyv1.Avoidance, error) {
	n, err := optionalNumber(qosproxyv1.Avoidance(0).Descriptor(), "AVOIDANCE_", string(word))
	return qosproxyv1.Avoidance(n), err
}

// Comparison is like Avoidance.
func Comparison[W ~string](word W) (qosproxyv1.Comparison, error) {
	n, err := optionalNumber(qosproxyv1.Comparison(0).Descriptor(), "COMPARISON_", string(word))
	return qosproxyv1.Comparison(n), err
}

// AttemptError is like Avoidance.
func AttemptError[W ~string](word W) (qosproxyv1.AttemptError, error) {
	n, err := optionalNumber(qosproxyv1.AttemptError(0).Descriptor(), "ATTEMPT_ERROR_", string(word))
	return qosproxyv1.AttemptError(n), err
}

// NotHedged is like Avoidance.
func NotHedged[W ~string](word W) (qosproxyv1.NotHedged, error) {
	n, err := optionalNumber(qosproxyv1.NotHedged(0).Descriptor(), "NOT_HEDGED_", string(word))
	return qosproxyv1.NotHedged(n), err
}

// optionalNumber is number for words that may be empty.
func optionalNumber(of protoreflect.EnumDescriptor, prefix, word string) (protoreflect.EnumNumber, error) {
	if word == "" {
		return 0, nil
	}
	return number(of, prefix, word)
}

// number returns the number of the enum value with a word.
func number(of protoreflect.EnumDescriptor, prefix, word string) (protoreflect.EnumNumber, error) {
	v := of.Values().ByName(protoreflect.Name(prefix + strings.ToUpper(word)))
	if v == nil || v.Number() == 0 {
		return 0, fmt.Errorf("%s has no value for %q", of.FullName(), word)
	}
	return v.Number(), nil
}

// millis returns a duration in milliseconds, to the microsecond.
func millis(d *durationpb.Duration) float64 { return float64(d.AsDuration().Microseconds()) / 1000 }

// optional returns nil for a duration that is not set.
func optional(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	ms := millis(d)
	return &ms
}
