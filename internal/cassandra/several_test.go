package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func TestAKeyCarriesTheReasonOfItsStatement(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		status partition.Status
		want   executor.Reason
	}{
		"never sent, no connection":  {gocql.ErrNoConnections, partition.Failed, executor.ReasonUnreachable},
		"never sent, refused":        {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, partition.Failed, executor.ReasonUnreachable},
		"the connection was closed":  {gocql.ErrConnectionClosed, partition.Failed, executor.ReasonDisconnected},
		"the connection broke":       {fmt.Errorf("read: %w", io.EOF), partition.Failed, executor.ReasonDisconnected},
		"timed out at the node":      {answer{gocql.ErrCodeReadTimeout, ""}, partition.Failed, executor.ReasonTimeout},
		"timed out in the driver":    {gocql.ErrTimeoutNoResponse, partition.Failed, executor.ReasonTimeout},
		"overloaded":                 {answer{gocql.ErrCodeOverloaded, ""}, partition.Failed, executor.ReasonOverloaded},
		"starting":                   {answer{gocql.ErrCodeBootstrapping, ""}, partition.Failed, executor.ReasonOverloaded},
		"too few replicas":           {answer{gocql.ErrCodeUnavailable, ""}, partition.Failed, executor.ReasonUnavailable},
		"refused as invalid":         {answer{gocql.ErrCodeInvalid, ""}, partition.Failed, executor.ReasonInvalid},
		"a server error":             {answer{gocql.ErrCodeServer, ""}, partition.Failed, executor.ReasonOther},
		"cannot be read":             {answer{gocql.ErrCodeReadFailure, ""}, partition.Failed, executor.ReasonReadFailure},
		"the end of another context": {context.DeadlineExceeded, partition.Failed, executor.ReasonOther},
		"classified already":         {&executor.ReadError{Reason: executor.ReasonTimeout, Err: io.EOF}, partition.Failed, executor.ReasonTimeout},
		"does not fit a frame":       {gocql.ErrFrameTooBig, partition.TooLarge, executor.ReasonOther},
	} {
		t.Run(name, func(t *testing.T) {
			res := failed(test.err)
			assert.Equal(t, test.status, res.Status)
			lost, ok := errors.AsType[*executor.ReadError](res.Err)
			require.True(t, ok)
			assert.Equal(t, test.want, lost.Reason)
			require.ErrorIs(t, lost, test.err)
			assert.Equal(t, test.want == executor.ReasonInvalid, refused([]partition.Result{{}, res}, nil), "the schema is read again")
		})
	}
	assert.True(t, refused(nil, answer{gocql.ErrCodeInvalid, ""}))
	assert.False(t, refused([]partition.Result{{Status: partition.Found}}, nil))
}

// handedOn are early results, by position.
type handedOn struct {
	mu    sync.Mutex
	begin time.Time
	at    map[int]time.Duration
	got   map[int]partition.Result
}

func (h *handedOn) Receive(from int, results []partition.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, res := range results {
		h.at[from+i], h.got[from+i] = time.Since(h.begin), res
	}
}

// newSeveral returns a reading of keys that sends nothing, and its early results.
func newSeveral(keys int) (*reading, *handedOn) {
	h := &handedOn{begin: time.Now(), at: map[int]time.Duration{}, got: map[int]partition.Result{}}
	return &reading{outstanding: newOutstanding(func() {}, nil), SubQuery: &executor.SubQuery{Early: h, Keys: make([]partition.Key, keys)}, results: make([]partition.Result, keys)}, h
}

// TestStatementsOfASubQueryFareEachAsItself runs five statements of two keys:
// three are answered or lost soon, one is late and one is the last.
func TestStatementsOfASubQueryFareEachAsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, early := newSeveral(10)
		errs := []error{nil, gocql.ErrConnectionClosed, answer{gocql.ErrCodeOverloaded, ""}, nil, gocql.ErrNoConnections}
		took := []time.Duration{1, 2, 3, 400, 500}
		err := r.each(t.Context(), span{0, 10}.split(2, nil), func(r *reading, _ context.Context, p span) error {
			i := p.from / 2
			time.Sleep(took[i] * time.Millisecond)
			if errs[i] == nil {
				r.results[p.from], r.results[p.from+1] = partition.Result{Status: partition.Found}, partition.Result{Status: partition.NotFound}
			}
			return errs[i]
		})
		require.NoError(t, err)
		want := []executor.Reason{"", executor.ReasonDisconnected, executor.ReasonOverloaded, "", executor.ReasonUnreachable}
		for k, res := range r.results {
			i := k / 2
			if errs[i] == nil {
				assert.True(t, res.Status.Answered())
			} else {
				lost, ok := errors.AsType[*executor.ReadError](res.Err)
				require.True(t, ok)
				assert.Equal(t, want[i], lost.Reason)
			}
			at, handed := early.at[k]
			assert.Equal(t, i < 4, handed, "the last statement is told by the return")
			if handed {
				assert.Equal(t, took[i]*time.Millisecond, at)
				assert.Equal(t, res, early.got[k])
			}
		}
	})
}

func TestALoneStatementIsToldByTheReturn(t *testing.T) {
	r, early := newSeveral(10)
	err := r.each(t.Context(), span{0, 10}.split(10, nil), func(*reading, context.Context, span) error { return io.EOF })
	assert.Equal(t, io.EOF, err)
	assert.Empty(t, early.at)
	r.Early = nil
	require.NoError(t, r.each(t.Context(), span{0, 10}.split(5, nil), func(*reading, context.Context, span) error { return nil }))
}
