package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

func TestWordsAndKinds(t *testing.T) {
	for n := range qosproxyv1.AttemptKind_name {
		kind, err := Kind(Word(qosproxyv1.AttemptKind(n)))
		assert.Equal(t, n == 0, err != nil, "unspecified is no kind")
		assert.EqualValues(t, n, kind)
	}
	for n := range qosproxyv1.AttemptOutcome_name {
		outcome, err := Outcome(Word(qosproxyv1.AttemptOutcome(n)))
		assert.Equal(t, n == 0, err != nil, "unspecified is no outcome")
		assert.EqualValues(t, n, outcome)
	}
	every(t, qosproxyv1.Avoidance_name, "AVOIDANCE_", Avoidance[string])
	every(t, qosproxyv1.Comparison_name, "COMPARISON_", Comparison[string])
	every(t, qosproxyv1.AttemptError_name, "ATTEMPT_ERROR_", AttemptError[string])
	every(t, qosproxyv1.NotHedged_name, "NOT_HEDGED_", NotHedged[string])
	_, err := Kind("probe")
	assert.ErrorContains(t, err, `qosproxy.v1.AttemptKind has no value for "probe"`)
}

// every checks that find knows each word of an enum, takes none for the first, and refuses
// others.
func every[E ~int32](t *testing.T, names map[int32]string, prefix string, find func(string) (E, error)) {
	t.Helper()
	for n, name := range names {
		word := strings.ToLower(strings.TrimPrefix(name, prefix))
		if n == 0 {
			word = ""
		}
		found, err := find(word)
		require.NoError(t, err, name)
		assert.EqualValues(t, n, found, name)
	}
	_, err := find("never")
	require.ErrorContains(t, err, `has no value for "never"`)
}

func TestExplanationAsJSON(t *testing.T) {
	group, host := int32(0), &qosproxyv1.Host{Address: "10.0.0.1:9042", Datacenter: "dc1", Rack: "r1"}
	body, err := json.Marshal(New(&qosproxyv1.Explanation{
		Plan: &qosproxyv1.Plan{
			Keys:   []*qosproxyv1.PlannedKey{{Token: 1 << 60, Replicas: []string{"10.0.0.1:9042"}, Group: &group}, {Token: -1}},
			Groups: []*qosproxyv1.PlannedGroup{{Host: host, Keys: []int32{0}}},
			Hosts:  []*qosproxyv1.PlannedHost{{Host: host, Avoided: "suspect"}}, Stressed: true,
		},
		Attempts: []*qosproxyv1.Attempt{{
			Host: "10.0.0.1:9042", Kind: qosproxyv1.AttemptKind_ATTEMPT_KIND_HEDGE, Outcome: qosproxyv1.AttemptOutcome_ATTEMPT_OUTCOME_WON,
			Start: durationpb.New(1500 * time.Microsecond), End: durationpb.New(2 * time.Millisecond), NotHedged: "budget", StatementKeys: 120,
		}},
		Deadline: durationpb.New(50 * time.Millisecond),
	}))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"keys": [{"token": "1152921504606846976", "replicas": ["10.0.0.1:9042"], "group": 0}, {"token": "-1", "replicas": [], "group": null}],
		"groups": [{"host": "10.0.0.1:9042", "dc": "dc1", "rack": "r1", "keys": [0]}],
		"hosts": [{"host": "10.0.0.1:9042", "dc": "dc1", "rack": "r1", "avoided": "suspect"}],
		"stressed": true,
		"attempts": [{"host": "10.0.0.1:9042", "kind": "hedge", "keys": [], "start_ms": 1.5, "end_ms": 2, "outcome": "won",
			"hedge_after_ms": null, "not_hedged": "budget", "statement_keys": 120}],
		"deadline_ms": 50}`, string(body))
	assert.Nil(t, New(nil))
	body, err = json.Marshal(NewPlan(nil))
	require.NoError(t, err)
	assert.JSONEq(t, `{"keys": [], "groups": [], "hosts": [], "stressed": false}`, string(body))
}

func TestAQuorumOfReplicasAsJSON(t *testing.T) {
	group := int32(0)
	plan := &qosproxyv1.Plan{Quorum: true, Keys: []*qosproxyv1.PlannedKey{{Token: 1, Group: &group, Groups: []int32{0, 1}, Compared: "matched"}}}
	body, err := json.Marshal(New(&qosproxyv1.Explanation{Plan: plan, Attempts: []*qosproxyv1.Attempt{{
		Host: "h", Kind: qosproxyv1.AttemptKind_ATTEMPT_KIND_REREAD, Outcome: qosproxyv1.AttemptOutcome_ATTEMPT_OUTCOME_WON, OwnData: true,
	}}}))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"keys": [{"token": "1", "replicas": [], "group": 0, "groups": [0, 1], "compared": "matched"}], "groups": [], "hosts": [],
		"stressed": false, "quorum": true,
		"attempts": [{"host": "h", "kind": "reread", "keys": [], "start_ms": 0, "end_ms": 0, "outcome": "won", "hedge_after_ms": null, "own_data": true}]
		}`, string(body))
	body, err = json.Marshal(NewPlan(&qosproxyv1.Plan{Fallback: "fallback_ring"}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"keys": [], "groups": [], "hosts": [], "stressed": false, "fallback": "fallback_ring"}`, string(body))
}
