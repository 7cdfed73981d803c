package sla

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

const shop = "shop.products"

var slo = Target{Percentile: 95, Target: 125 * time.Millisecond}

func recorder(t testing.TB) *Recorder {
	t.Helper()
	r, err := New(nil, map[string]Target{shop: slo})
	require.NoError(t, err)
	return r
}

func snapshot(t *testing.T, r *Recorder, window time.Duration) Percentiles {
	t.Helper()
	p, ok := r.Snapshot(shop, window)
	require.True(t, ok)
	return p
}

// TestWhatIsRefusedDoesNotMissTheSLO keeps shedding from being a reason to shed.
func TestWhatIsRefusedDoesNotMissTheSLO(t *testing.T) {
	for name, tc := range map[string]struct {
		lookup      Lookup
		count, good float64
	}{
		"a lookup refused as a whole":         {Lookup{Code: "RESOURCE_EXHAUSTED", Refused: 3, Statuses: Counts{4: 3}}, 0, 0},
		"control: shed by the hosts":          {Lookup{Code: "RESOURCE_EXHAUSTED", Statuses: Counts{4: 3}}, 1, 0},
		"the other keys answered":             {Lookup{Code: "PARTIAL", Refused: 1, Statuses: Counts{0: 2, 4: 1}}, 1, 1},
		"the other keys answered, but late":   {Lookup{Code: "PARTIAL", Refused: 1, Duration: time.Second, Statuses: Counts{0: 2, 4: 1}}, 1, 0},
		"another key timed out":               {Lookup{Code: "PARTIAL", Refused: 1, Statuses: Counts{0: 1, 2: 1, 4: 1}}, 1, 0},
		"the caller hung up on what was left": {Lookup{Code: "CANCELLED", Refused: 1, Statuses: Counts{0: 2, 4: 1}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorder(t)
			tc.lookup.Table, tc.lookup.Keys = shop, 3
			r.Observe(&tc.lookup)
			p := snapshot(t, r, Minute)
			assert.Equal(t, tc.count, float64(p.Count))
			if tc.count > 0 {
				assert.Equal(t, tc.good, p.Ratio)
			}
		})
	}
}

func TestWhatCountsForTheSLO(t *testing.T) {
	const target = 125 * time.Millisecond
	type outcome struct{ count, good, latencies int64 }
	for name, tc := range map[string]struct {
		code lookup.Code
		d    time.Duration
		want outcome
	}{
		"an answer exactly at the target keeps it":            {"OK", target, outcome{1, 1, 1}},
		"an answer a nanosecond later breaks it":              {"OK", target + 1, outcome{1, 0, 1}},
		"a partial answer that was agreed to keeps it":        {"PARTIAL_OK", target, outcome{1, 1, 1}},
		"a partial answer that was agreed to, but is late":    {"PARTIAL_OK", target + 1, outcome{1, 0, 1}},
		"a partial answer breaks it":                          {"PARTIAL", time.Millisecond, outcome{1, 0, 1}},
		"an own deadline shorter than the target breaks it":   {"DEADLINE_EXCEEDED", time.Millisecond, outcome{1, 0, 1}},
		"a quick failure breaks it and is no latency":         {"UNAVAILABLE", time.Millisecond, outcome{1, 0, 0}},
		"shedding breaks it and is no latency":                {"RESOURCE_EXHAUSTED", time.Millisecond, outcome{1, 0, 0}},
		"an internal error breaks it":                         {"INTERNAL", time.Millisecond, outcome{1, 0, 0}},
		"an end without a name counts as an internal error":   {"ON_FIRE", time.Millisecond, outcome{1, 0, 0}},
		"a bad request does not count":                        {"INVALID_ARGUMENT", time.Second, outcome{}},
		"an unknown table does not count":                     {"NOT_FOUND", time.Second, outcome{}},
		"a forbidden column does not count":                   {"PERMISSION_DENIED", time.Second, outcome{}},
		"a caller that hangs up within the target is no loss": {"CANCELLED", target, outcome{}},
		"a caller that hangs up after the target had to wait": {"CANCELLED", target + 1, outcome{1, 0, 1}},
		"a clock that went backwards is a latency of nothing": {"OK", -time.Second, outcome{1, 1, 1}},
		"a lookup of an hour is in the top bucket, not lost":  {"DEADLINE_EXCEEDED", time.Hour, outcome{1, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorder(t)
			r.Observe(&Lookup{Table: shop, Keys: 3, Code: tc.code, Duration: tc.d})
			p := snapshot(t, r, Minute)
			assert.Equal(t, tc.want.count, p.Count)
			assert.Equal(t, tc.want.latencies, p.Latencies)
			if tc.want.count > 0 {
				assert.InDelta(t, float64(tc.want.good), p.Ratio, 0)
			}
		})
	}
}

func TestEveryCodeHasItsPlace(t *testing.T) {
	assert.Equal(t, []lookup.Code{"OK", "PARTIAL", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL",
		"INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "CANCELLED", "PARTIAL_OK", "FAILED_PRECONDITION"}, Codes())
	for i, name := range Codes() {
		assert.Equal(t, i, codeIndex(name))
	}
	assert.Equal(t, lookup.CodeInternal, codes[codeIndex("?")].name)
	assert.Len(t, StatusNames(), len(Counts{}))
}

func TestLookupsAreClassedByTheirKeys(t *testing.T) {
	for keys, want := range map[int]string{
		-1: "1", 0: "1", 1: "1", 2: "2-10", 10: "2-10", 11: "11-50", 50: "11-50", 51: "51-100", 100: "51-100", 101: "101+", 1 << 40: "101+",
	} {
		assert.Equal(t, want, keysLabels[keysIndex(keys)].name, "%d keys", keys)
	}
}

func TestRatioAndBurn(t *testing.T) {
	for name, tc := range map[string]struct {
		good, bad   int
		ratio, burn float64
	}{
		"no lookup misses no SLO":                   {0, 0, 1, 0},
		"all within the target burn nothing":        {100, 0, 1, 0},
		"exactly the allowed share burns at one":    {95, 5, 0.95, 1},
		"twice the allowed failures burn at two":    {90, 10, 0.9, 2},
		"an SLO of 95 % burns at twenty at most":    {0, 7, 0, 20},
		"an SLO that is met with ease burns slowly": {99, 1, 0.99, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorder(t)
			for i := range tc.good + tc.bad {
				code := lookup.CodeOK
				if i < tc.bad {
					code = lookup.CodeUnavailable
				}
				r.Observe(&Lookup{Table: shop, Code: code, Duration: time.Millisecond})
			}
			p := snapshot(t, r, Minute)
			assert.InDelta(t, tc.ratio, p.Ratio, 1e-12)
			assert.InDelta(t, tc.burn, p.Burn, 1e-9)
		})
	}
}

func TestATableWithoutTargetIsKeptApart(t *testing.T) {
	r := recorder(t)
	r.Observe(&Lookup{Table: "anything a client may say", Code: "NOT_FOUND"})
	_, ok := r.Snapshot("anything a client may say", Minute)
	assert.False(t, ok)
	_, ok = r.Target("anything a client may say")
	assert.False(t, ok)
	assert.Equal(t, []string{shop}, r.Tables())
	target, ok := r.Target(shop)
	assert.True(t, ok)
	assert.Equal(t, Target{95, 125 * time.Millisecond, 62500 * time.Microsecond}, target)
}
