package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/server"
)

// attacked runs an attack on a server of rows until a condition holds, and returns its counts.
func attacked(t *testing.T, r *rows, a *Attack, until func(*Attacked) bool) *Attacked {
	t.Helper()
	a.Address, a.Path = proxyOf(t, r, server.Limits{}), qosproxyv1.QosProxy_BatchGet_FullMethodName
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen Attacked
	done := make(chan error)
	go func() { done <- a.Run(ctx, &seen) }()
	assert.Eventually(t, func() bool { return until(&seen) }, 20*time.Second, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	return &seen
}

func TestCallsAreBegunAndNotEnded(t *testing.T) {
	const announced = 100 << 10
	r := newRows(0)
	seen := attacked(t, r, &Attack{Connections: 2, Calls: 3, Announced: announced}, func(s *Attacked) bool {
		return s.Reset.Load()+s.Ended.Load() > 0 || s.Sent.Load() == 2*3*(5+announced-1)
	})
	assert.Equal(t, int64(6), seen.Calls.Load())
	assert.Zero(t, r.asked.Load(), "no call is a lookup")
}

func TestAnswersAreAskedForAndNotRead(t *testing.T) {
	request, err := message(oneKey(0))
	require.NoError(t, err)
	r := newRows(0)
	r.cell = make([]byte, 256<<10)
	seen := attacked(t, r, &Attack{Connections: 2, Calls: 5, Request: request}, func(s *Attacked) bool {
		return r.asked.Load() == 10 && s.Received.Load() == 2*firstWindow
	})
	assert.Zero(t, seen.Ended.Load(), "no call has its whole answer")

	r = newRows(0)
	seen = attacked(t, r, &Attack{Connections: 1, Calls: 2, Pause: time.Millisecond, Request: request}, func(s *Attacked) bool { return s.Ended.Load() > 4 })
	assert.Greater(t, seen.Calls.Load(), int64(4), "calls that end are replaced")

	r = newRows(0)
	seen = attacked(t, r, &Attack{Connections: 1, Calls: 5, Request: request}, func(s *Attacked) bool { return s.Ended.Load() == 5 })
	assert.Equal(t, int64(5), r.asked.Load(), "small answers end")
	assert.Zero(t, seen.Reset.Load())
}
