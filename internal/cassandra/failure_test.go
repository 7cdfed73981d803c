package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// answer is an error of the server: its code and message.
type answer struct {
	code int
	msg  string
}

func (a answer) Code() int       { return a.code }
func (a answer) Message() string { return a.msg }
func (a answer) Error() string   { return a.msg }

func TestReasonOfAnError(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	broken := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for name, test := range map[string]struct {
		err  error
		want executor.Reason
		free bool
	}{
		"no pool":                      {gocql.ErrNoConnections, executor.ReasonUnreachable, true},
		"no stream":                    {gocql.ErrNoStreams, executor.ReasonUnreachable, true},
		"session closed":               {gocql.ErrSessionClosed, executor.ReasonUnreachable, true},
		"no session":                   {errNotConnected, executor.ReasonUnreachable, true},
		"refused":                      {dial, executor.ReasonUnreachable, true},
		"connection closed":            {gocql.ErrConnectionClosed, executor.ReasonDisconnected, true},
		"connection reset":             {fmt.Errorf("read: %w", broken), executor.ReasonDisconnected, true},
		"end of stream":                {io.EOF, executor.ReasonDisconnected, true},
		"client side timeout":          {gocql.ErrTimeoutNoResponse, executor.ReasonTimeout, false},
		"unavailable":                  {answer{gocql.ErrCodeUnavailable, ""}, executor.ReasonUnavailable, false},
		"overloaded":                   {answer{gocql.ErrCodeOverloaded, ""}, executor.ReasonOverloaded, false},
		"bootstrapping":                {answer{gocql.ErrCodeBootstrapping, ""}, executor.ReasonOverloaded, false},
		"read timeout":                 {answer{gocql.ErrCodeReadTimeout, ""}, executor.ReasonTimeout, false},
		"read failure":                 {answer{gocql.ErrCodeReadFailure, ""}, executor.ReasonReadFailure, false},
		"unknown column":               {answer{gocql.ErrCodeInvalid, "Undefined column name x"}, executor.ReasonInvalid, false},
		"no permission":                {answer{gocql.ErrCodeUnauthorized, ""}, executor.ReasonInvalid, false},
		"server error":                 {answer{gocql.ErrCodeServer, ""}, executor.ReasonOther, false},
		"table has changed":            {fmt.Errorf("x: %w", errStale), executor.ReasonInvalid, false},
		"something else":               {errors.New("boom"), executor.ReasonOther, false},
		"classified already":           {&executor.ReadError{Reason: executor.ReasonInvalid, Err: io.EOF}, executor.ReasonInvalid, false},
		"a row that was not asked for": {errForeignRow, executor.ReasonOther, false},
	} {
		t.Run(name, func(t *testing.T) {
			var re *executor.ReadError
			require.ErrorAs(t, readError(test.err), &re)
			assert.Equal(t, test.want, re.Reason)
			assert.Equal(t, test.free, re.Reason.Free())
		})
	}
	for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded} {
		assert.Equal(t, err, readError(err), "the end of a context is nobody's failure")
	}
}

func TestGuardrailIsTold(t *testing.T) {
	for _, clustering := range []bool{false, true} {
		assert.True(t, guardrail(answer{gocql.ErrCodeInvalid,
			"Guardrail partition_keys_in_select violated: Select query with partition keys in IN relation on table t"}, clustering))
		assert.False(t, guardrail(answer{gocql.ErrCodeInvalid, "Guardrail page_size violated"}, clustering))
		assert.False(t, guardrail(answer{gocql.ErrCodeServer, "Guardrail partition_keys_in_select violated"}, clustering))
		assert.False(t, guardrail(io.EOF, clustering))
		assert.Equal(t, !clustering, guardrail(cartesian("partition", 50, 25), clustering))
		assert.Equal(t, clustering, guardrail(cartesian("clustering", 50, 25), clustering))
	}
}

// cartesian is how nodes of 4.1 and later refuse a product of values.
func cartesian(key string, values, most int) error {
	return answer{gocql.ErrCodeInvalid, fmt.Sprintf("Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product "+
		"of the IN restrictions on %s key produces %d values, this exceeds fail threshold of %d.", key, values, most)}
}

func TestFailureOfOneKeyTellsClientsNoAddress(t *testing.T) {
	failure := func(codes gocql.ErrorMap) error { return &gocql.RequestErrReadFailure{ErrorMap: codes} }
	for name, test := range map[string]struct {
		err    error
		status partition.Status
		why    reasons.Reason
		text   string
	}{
		"tombstones":             {failure(gocql.ErrorMap{"10.1.2.3": 1}), partition.Failed, reasons.Tombstones, "a replica met too many tombstones in the partition"},
		"too large for replicas": {failure(gocql.ErrorMap{"10.1.2.3": 4}), partition.TooLarge, reasons.PartitionTooLarge, "the partition exceeds the size that replicas read"},
		"too large for a frame":  {gocql.ErrFrameTooBig, partition.TooLarge, reasons.PartitionTooLarge, "the partition exceeds the size of a response"},
		"read failure":           {answer{gocql.ErrCodeReadFailure, "by 10.1.2.3"}, partition.Failed, reasons.ReadFailure, "a replica failed to read the partition"},
		"refused":                {&net.OpError{Op: "dial", Err: errors.New("10.1.2.3")}, partition.Failed, reasons.HostError, "the read of the partition did not succeed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := failed(test.err)
			assert.Equal(t, test.status, r.Status)
			assert.Equal(t, test.why, r.Reason)
			require.ErrorIs(t, r.Err, test.err, "the cause is there for the log")
			require.EqualError(t, r.Err, test.text)
			assert.NotContains(t, r.Err.Error(), "10.1.2.3")
		})
	}
}
