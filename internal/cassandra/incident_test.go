package cassandra

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func newIncidents(t *testing.T) (*incident.Log, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	l, err := incident.New(slog.New(slog.NewTextHandler(&out, nil)), nil)
	require.NoError(t, err)
	return l, &out
}

// The statements of a sub-query run in goroutines; one that panics fails all of it.
func TestAPanicOfAStatementFailsTheSubQuery(t *testing.T) {
	for _, parts := range []int{1, 2, 100} {
		incidents, out := newIncidents(t)
		var settled atomic.Int32
		v := newOutstanding(func() { settled.Add(1) }, incidents)
		r := newTestReading(t, parts, 10, 1000, false)
		r.outstanding = v
		last := parts - 1
		err := v.run(t.Context(), func() error {
			return r.each(t.Context(), span{0, parts}.split(1, nil), func(_ *reading, _ context.Context, p span) error {
				if p.from == last {
					panic("SECRET")
				}
				return nil
			})
		})
		v.release()
		var failed *incident.Error
		require.ErrorAs(t, readError(err), &failed, "of %d statements", parts)
		assert.Contains(t, out.String(), failed.ID)
		assert.NotContains(t, out.String(), "SECRET")
		assert.EqualValues(t, 1, settled.Load())
	}
}

func TestAPanicReachesNoGoroutineOfTheDriver(t *testing.T) {
	incidents, out := newIncidents(t)
	v := newOutstanding(func() { panic("settled") }, incidents)
	s := &stream{Context: t.Context(), outstanding: v}
	s.StreamStarted(gocql.ObservedStream{})
	v.release()
	s.StreamFinished(gocql.ObservedStream{})
	assert.Contains(t, out.String(), "end of a read")

	w := &watcher{announced: func() { panic("announced") }, incidents: incidents}
	w.live.Store(true)
	w.ObserveFrameHeader(t.Context(), gocql.ObservedFrameHeader{Stream: eventStream})
	assert.Contains(t, out.String(), "event of the cluster")
	w.ObserveConnect(gocql.ObservedConnect{})
	assert.Contains(t, out.String(), "connection to a host")
	_, err := (&hostDialer{incidents: incidents}).DialHost(t.Context(), nil)
	require.Error(t, err)
}

// A refresh that panics is a failure like any other: the reason is reported, and the next one is
// tried.
func TestAPanicOfARefreshIsTriedAgain(t *testing.T) {
	cfg := quiet(closedPort(t))
	incidents, out := newIncidents(t)
	cfg.Incidents = incidents
	c, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	c.Close()
	c.session.Store(&session{}) // without a driver, which no code expects
	_, err = c.step(t.Context())
	var failed *incident.Error
	require.ErrorAs(t, err, &failed)
	assert.Contains(t, out.String(), failed.ID)
	assert.Contains(t, c.Status().Reason, failed.ID)
	assert.False(t, c.Status().Ready)

	// A sub-query with such a session fails with the panic, and settles.
	settled := make(chan struct{})
	table := testTable([]string{"id"}, nil, []string{"v"})
	key, err := partition.NewKey([]byte("k"))
	require.NoError(t, err)
	q := ask(table, "v")
	q.Consistency, q.Limit = "ONE", 1
	_, err = c.Read(t.Context(), &executor.SubQuery{Query: q, Keys: []partition.Key{key}, Settled: func() { close(settled) }})
	require.ErrorAs(t, err, &failed)
	<-settled
}
