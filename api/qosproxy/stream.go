package qosproxy

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Stream makes a lookup and yields each key as soon as a replica has answered it, in no
// particular order; Result.Index is its position. Every key is yielded once, answered
// or not, unless the lookup fails as a whole. Then the last pair is a zero Result with
// an *Error. Leaving the loop ends the lookup.
//
// Each loop over the returned iterator makes the lookup anew.
func (c *Client) Stream(ctx context.Context, l Lookup) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		in, err := l.request()
		if err != nil {
			yield(Result{}, err)
			return
		}
		ctx, within := l.within(ctx)
		defer within()
		ctx, cancel := c.bounded(ctx)
		defer cancel()
		ctx, end := context.WithCancel(ctx)
		defer end()
		if err := c.receive(ctx, in, l.Keys, func(r Result) bool { return yield(r, nil) }); err != nil {
			yield(Result{}, newError(err, l.Keys))
		}
	}
}

// receive makes a streamed lookup. It returns when each key has been emitted, or emit
// has returned false.
func (c *Client) receive(ctx context.Context, in *qosproxyv1.BatchGetRequest, keys []Key, emit func(Result) bool) error {
	stream, first, err := c.begin(ctx, in)
	if err != nil {
		return err
	}
	header := newColumns(first.GetHeader().GetColumns())
	answered := make([]bool, len(keys))
	for left := len(keys); ; {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && left == 0:
			return nil
		case errors.Is(err, io.EOF):
			return status.Error(codes.Internal, errShort.Error())
		case errors.Is(context.Cause(ctx), errPatience):
			return status.Error(codes.DeadlineExceeded, errPatience.Error())
		case err != nil:
			return err
		}
		r := part.GetResult()
		if r == nil {
			continue
		}
		i := int(r.GetIndex())
		if i < 0 || i >= len(keys) || answered[i] {
			return status.Error(codes.Internal, errShort.Error())
		}
		answered[i] = true
		left--
		if !emit(Result{Index: i, Key: keys[i], proto: r.GetResult(), columns: header}) {
			return nil
		}
	}
}

// begin opens a stream and waits for its header. It may retry, because no key has been
// answered before the header.
func (c *Client) begin(ctx context.Context, in *qosproxyv1.BatchGetRequest) (stream grpc.ServerStreamingClient[qosproxyv1.StreamBatchGetResponse], first *qosproxyv1.StreamBatchGetResponse, err error) {
	err = c.retry(ctx, func() error {
		if stream, err = c.api.StreamBatchGet(ctx, &qosproxyv1.StreamBatchGetRequest{
			Keyspace: in.GetKeyspace(), Table: in.GetTable(), Keys: in.GetKeys(), Columns: in.GetColumns(), LimitPerKey: in.GetLimitPerKey(),
			Encoding: in.GetEncoding(), Timeout: in.GetTimeout(), SoftDeadline: in.GetSoftDeadline(), MinKeys: in.GetMinKeys(),
			OptionalKeys: in.GetOptionalKeys(), Where: in.GetWhere(), Order: in.GetOrder(), Consistency: in.GetConsistency(),
			Paging: in.GetPaging(), PageTokens: in.GetPageTokens(),
		}); err == nil {
			first, err = stream.Recv()
		}
		return err
	})
	return stream, first, err
}
