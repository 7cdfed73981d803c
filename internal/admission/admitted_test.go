package admission

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// answers are Lookups that answer each key with a status, and note what is in-flight.
type answers struct {
	controller *Controller
	statuses   []partition.Status
	inflight   int
}

func (a *answers) Get(context.Context, *lookup.Request) (*lookup.Response, error) {
	a.inflight = a.controller.Status().InflightKeys
	resp := &lookup.Response{}
	for _, s := range a.statuses {
		resp.Results = append(resp.Results, partition.Result{Status: s})
	}
	return resp, nil
}

func (a *answers) Stream(ctx context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	resp, _ := a.Get(ctx, req)
	for i, r := range resp.Results {
		if err := emit(i, r); err != nil {
			return lookup.Stats{}, err
		}
	}
	return resp.Stats, nil
}

func TestALookupHoldsItsPermitUntilTheHostsHaveAnswered(t *testing.T) {
	c, err := New(Config{Limits: DefaultLimits()})
	require.NoError(t, err)
	req := &lookup.Request{
		Table: &lookup.Table{Schema: schema.NewTable("ks", "t", "", nil), Settings: &lookup.Settings{Timeout: time.Second}},
		Keys:  make([]partition.Key, 2),
	}
	next := &answers{controller: c, statuses: []partition.Status{partition.Found, partition.NotFound}}
	admitted := NewAdmitted(next, c)

	resp, err := admitted.Get(t.Context(), req)
	require.NoError(t, err)
	assert.Len(t, resp.Results, 2)
	assert.Equal(t, 2, next.inflight)
	assert.Zero(t, c.Status().InflightKeys)

	next.inflight = 0
	emitted := 0
	_, err = admitted.Stream(t.Context(), req, func(int, partition.Result) error { emitted++; return nil })
	require.NoError(t, err)
	assert.Equal(t, 2, emitted)
	assert.Equal(t, 2, next.inflight)
	assert.Zero(t, c.Status().InflightKeys)

	next.inflight = 0
	_, err = admitted.Stream(t.Context(), req, func(int, partition.Result) error { return context.Canceled })
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 2, next.inflight)
	assert.Zero(t, c.Status().InflightKeys, "also after an error")
}

func TestACallerWhoHangsUpIsNoEvidence(t *testing.T) {
	limits := DefaultLimits()
	table := schema.NewTable("ks", "t", "", nil)
	req := &lookup.Request{
		Table: &lookup.Table{Schema: table, Settings: &lookup.Settings{Timeout: time.Second}},
		Keys:  make([]partition.Key, 1),
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		late float64
	}{"who waits": {t.Context(), 2}, "who hung up": {gone, 0}} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Limits: limits, Tables: map[string]SLO{table.String(): slo}})
			require.NoError(t, err)
			admitted := NewAdmitted(&answers{controller: c, statuses: []partition.Status{partition.TimedOut}}, c)
			_, err = admitted.Get(tt.ctx, req)
			require.NoError(t, err)
			_, err = admitted.Stream(tt.ctx, req, func(int, partition.Result) error { return nil })
			require.NoError(t, err)
			assert.InDelta(t, tt.late, c.load.recent.sum(shortWindow, time.Now()).late, 0)
			assert.InDelta(t, tt.late, c.tables[table.String()].ladder.seconds.sum(shortWindow, time.Now()).late, 0)
		})
	}
}

func TestARefusedLookupAsksNobody(t *testing.T) {
	c, err := New(Config{Limits: DefaultLimits()})
	require.NoError(t, err)
	all, err := c.Admit(Ask{Table: "ks.t", Keys: 1 << 20})
	require.NoError(t, err)
	defer all.Release(Outcome{})
	req := &lookup.Request{
		Table: &lookup.Table{Schema: schema.NewTable("ks", "t", "", nil), Settings: &lookup.Settings{Timeout: time.Second}},
		Keys:  make([]partition.Key, 2),
	}
	next := &answers{controller: c}
	admitted := NewAdmitted(next, c)
	_, err = admitted.Get(t.Context(), req)
	assert.ErrorAs(t, err, new(*Refusal))
	_, err = admitted.Stream(t.Context(), req, func(int, partition.Result) error { return nil })
	assert.ErrorAs(t, err, new(*Refusal))
	assert.Zero(t, next.inflight)

	req.Keys = nil
	_, err = admitted.Get(t.Context(), req)
	assert.NoError(t, err, "without keys it is the service that refuses")
}

func TestWhatAdmissionIsTold(t *testing.T) {
	told := func(most int, results ...partition.Result) (o Outcome) {
		for i := range results {
			o.add(&results[i], most)
		}
		return o
	}
	of := func(s ...partition.Status) (out []partition.Result) {
		for _, s := range s {
			out = append(out, partition.Result{Status: s})
		}
		return out
	}
	assert.Equal(t, Outcome{Answered: 2, Late: 2, Bytes: 1000}, told(1000, of(partition.Found, partition.NotFound, partition.TimedOut, partition.Shed,
		partition.Unavailable, partition.Failed, partition.TooLarge)...), "what is too large is as much as an answer may have")
	assert.Equal(t, Outcome{Answered: 2, Bytes: 500}, told(1000,
		partition.Result{Status: partition.Found, Bytes: 300}, partition.Result{Status: partition.Found, Bytes: 200}))
	assert.Equal(t, Outcome{}, told(1000,
		partition.Unanswered(reasons.Optional, lookup.ErrOptionalShed), partition.Unanswered(reasons.SoftDeadline, lookup.ErrSoftDeadline)),
		"keys that the caller did without say nothing about the hosts")
}

// TestRowsOfNullsTakeMemory counts what leads to cells that have no bytes.
func TestRowsOfNullsTakeMemory(t *testing.T) {
	var o Outcome
	o.add(&partition.Result{Status: partition.Found, Rows: []partition.Row{make(partition.Row, 30), make(partition.Row, 30)}, Bytes: 5}, 1000)
	assert.Equal(t, Outcome{Answered: 1, Bytes: 5 + 2*31*24}, o)
}
