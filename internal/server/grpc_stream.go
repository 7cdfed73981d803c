package server

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// keyStream is a StreamBatchGet. It stands between the lookup, which answers keys at the
// speed of hosts, and a reader that may be slow. The lookup and its permit end with the
// last host, whatever the reader does.
type keyStream struct {
	*call
	req    *lookup.Request
	encode *encoder
	stream grpc.ServerStreamingServer[qosproxyv1.StreamBatchGetResponse]

	// answers are not sent yet; the channel has room for all keys.
	answers chan keyAnswer
	// ended receives how the lookup ended, after its last answer went to answers.
	ended chan streamEnd
	// waiting is the memory of the answers that are not sent yet, in bytes.
	waiting atomic.Int64
	// unsent holds what is waiting when the lookup ends; its Sent must be called.
	unsent *memory.Answer
}

// keyAnswer is the result of the key at a position.
type keyAnswer struct {
	key    int
	result partition.Result
}

// streamEnd is how a lookup ended, with the memory of the answers that were not sent by then.
type streamEnd struct {
	stats  lookup.Stats
	err    error
	unsent *memory.Answer
}

// get reads the keys of a request and sends each as soon as it is answered. The results
// that it returns have no rows.
func (k *keyStream) get(ctx context.Context, req *lookup.Request) (resp *lookup.Response, err error) {
	ctx, cancel := context.WithCancel(ctx)
	k.req, k.answers, k.ended = req, make(chan keyAnswer, len(req.Keys)), make(chan streamEnd, 1)
	go k.read(ctx)
	var results []partition.Result
	defer func() { // also if sending panics
		cancel() // ends the lookup when the reader is gone
		end := <-k.ended
		k.unsent = end.unsent
		if err = cmp.Or(end.err, err); err == nil {
			resp = &lookup.Response{Results: results, Stats: end.stats}
		}
	}()
	results, err = k.send()
	return nil, err
}

// read runs the lookup. It returns when the hosts have answered.
func (k *keyStream) read(ctx context.Context) {
	var end streamEnd
	defer func() {
		if r := recover(); r != nil {
			end.err = k.server.deps.Incidents.Record(ctx, qosproxyv1.QosProxy_StreamBatchGet_FullMethodName, r)
		}
		k.ended <- end
		close(k.answers)
	}()
	end.stats, end.err = k.server.lookups.Stream(ctx, k.req, func(i int, r partition.Result) error {
		k.waiting.Add(int64(r.Memory()))
		k.answers <- keyAnswer{i, r}
		return nil
	})
	if end.err != nil {
		return
	}
	k.done = time.Now()
	end.unsent, end.err = callOf(ctx).Answer(int(k.waiting.Load()), abortOf(ctx))
	if abort := abortOf(ctx); end.err != nil && abort != nil {
		abort() // there is no memory for what remains to be sent
	}
}

// send sends the answers as they arrive, and returns them without their rows. It sends
// the header with the first: a request that the service refuses gets only its error.
func (k *keyStream) send() ([]partition.Result, error) {
	results := make([]partition.Result, len(k.req.Keys))
	sent := false
	for a := range k.answers {
		if !sent {
			sent = true
			if err := k.stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Header{
				Header: &qosproxyv1.StreamHeader{Columns: columnsOf(k.req.Columns)}}}); err != nil {
				return nil, err
			}
		}
		out := &qosproxyv1.KeyResult{}
		k.encode.buf = k.encode.buf[:0] // the previous key has been sent by now
		k.encode.result(k.req.Columns, &a.result)
		attach(out, k.encode.buf)
		results[a.key] = partition.Result{Status: a.result.Status, Bytes: a.result.Bytes, Reason: a.result.Reason, Err: a.result.Err}
		if err := k.stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Result{
			Result: &qosproxyv1.StreamResult{Index: int32(a.key), Result: out}}}); err != nil {
			return nil, err
		}
		k.waiting.Add(-int64(a.result.Memory()))
	}
	return results, nil
}
