package server

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// These are the reasons that package standin cannot produce. It makes all others reach a client.

// why returns the reason in an error of a call.
func why(err error) string { return detail[*errdetails.ErrorInfo](err).GetMetadata()[reasonKey] }

func TestOneRingAtATimeTellsItsReason(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{ring: twoHosts(t)}})
	g := &grpcService{server: d.Server}
	g.describing.Lock()
	defer g.describing.Unlock()
	_, err := g.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{})
	assert.Equal(t, "busy", why(err))
	assert.Equal(t, "SHED", detail[*errdetails.ErrorInfo](err).GetReason(), "which it has had before")
}

func TestResetsTellTheirReason(t *testing.T) { assert.Equal(t, "resets", why(errResets)) }

func TestARequestThatDoesNotArriveTellsSo(t *testing.T) {
	s := start(t, both(Limits{}), Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}}, Memory: memory.New(64 * mebibyte)})
	conn := connect(t, s, "http")
	_, err := io.WriteString(conn, "POST /v1/ks/products:batchGet HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.memory.Usage().Used > 0 }, patience, time.Millisecond)
	s.memory.Expire(0, time.Hour)
	answer, _ := io.ReadAll(conn)
	assert.Contains(t, string(answer), "HTTP/1.1 408")
	assert.Contains(t, string(answer), `"reason":"request_timeout"`)
	assert.Equal(t, "request_timeout", why(grpcError(t.Context(), &memory.Error{Reason: memory.Slow})))
}

// A result that partition.Unanswered has not made is a fault of the proxy, and reported as one.
func TestAResultWithoutReasonIsAFault(t *testing.T) {
	d := open(t, Deps{Lookup: &fake{tables: []*lookup.Table{products(t)}, get: respond(absent, partition.Result{Status: partition.TooLarge})}})
	w := do(d.http.Handler, "POST", "/v1/ks/products:batchGet", `{"keys":["a","b"]}`)
	assert.Contains(t, w.Body.String(), `{"key":"b","status":"TOO_LARGE","reason":"internal"`)
	resp, err := d.rpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("a")), key(text("b"))}})
	require.NoError(t, err)
	assert.Equal(t, qosproxyv1.Reason_REASON_INTERNAL, resp.GetResults()[1].GetReason())
	assert.Equal(t, qosproxyv1.Reason_REASON_UNSPECIFIED, resp.GetResults()[0].GetReason())
}

// With many keys the details of an error run out of space: texts are dropped first, then the
// reasons of single keys. The error keeps the one that decided.
func TestDetailsHaveReasonsAsLongAsTheyFit(t *testing.T) {
	for _, c := range []struct {
		keys          int
		text          string
		texts, reason bool
		statuses      bool
	}{
		{keys: 2, text: "late", texts: true, reason: true, statuses: true},
		{keys: 40, text: strings.Repeat("x", 200), reason: true, statuses: true},
		{keys: 800, text: "late", statuses: true},
		{keys: 2000, text: "late"},
	} {
		results := make([]partition.Result, c.keys)
		for i := range results {
			results[i] = partition.Unanswered(reasons.TooManyRows, textError(c.text))
		}
		o := outcomeOf(t.Context(), results)
		err := unansweredError(o, &lookup.Response{Results: results})
		assert.Equal(t, "too_many_rows", why(err))
		resp := detail[*qosproxyv1.BatchGetResponse](err)
		require.Equal(t, c.statuses, resp != nil, "%d keys", c.keys)
		for _, r := range resp.GetResults() {
			assert.Equal(t, c.texts, r.GetError() != "", "%d keys", c.keys)
			assert.Equal(t, c.reason, r.GetReason() == qosproxyv1.Reason_REASON_TOO_MANY_ROWS, "%d keys", c.keys)
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }
