package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/tap"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/memory"
)

// The context keys of what a request holds, of the function that ends a call, and of the
// error with which its handler refuses it.
type (
	callKey    struct{}
	abortKey   struct{}
	refusalKey struct{}
)

// callOf returns what a request holds of the memory budget; nil if it is not counted.
func callOf(ctx context.Context) *memory.Call {
	call, _ := ctx.Value(callKey{}).(*memory.Call)
	return call
}

// abortOf returns what ends a gRPC call, or the sending of an HTTP answer; nil if nothing
// can.
func abortOf(ctx context.Context) func() {
	abort, _ := ctx.Value(abortKey{}).(func())
	return abort
}

// tap decides on a call by its headers, before gRPC does anything with it: who calls, and
// whether there is memory. It runs on the goroutine that reads the connection. Most calls
// that are reset at once get no further.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	c := s.connOf(ctx)
	if c != nil && !c.begin(s.cfg.protocol.unwanted) {
		return refuse(ctx, errResets)
	}
	tapped, err := s.tapped(ctx, c, info.FullMethodName)
	if err == nil {
		return tapped, nil
	}
	if c != nil {
		c.unwanted.Add(-1) // a refused call says nothing about its peer
	}
	return refuse(ctx, err)
}

// maxTapTimeout is the longest timeout of a call that the tap itself refuses.
const maxTapTimeout = time.Second

// refuse ends a call with an error. If the tap refuses a call, gRPC keeps its timer for the
// whole timeout, which may be years. A call with more left than maxTapTimeout is therefore
// refused by its handler, before it receives anything; see refusalOf.
func refuse(ctx context.Context, err error) (context.Context, error) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) > maxTapTimeout {
		return context.WithValue(ctx, refusalKey{}, err), nil
	}
	return ctx, err
}

// refusalOf returns the error with which the handler of a gRPC call must refuse it before
// anything else; nil if there is none.
func refusalOf(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// tapped returns the context of a call that may be received.
func (s *Server) tapped(ctx context.Context, c *conn, method string) (context.Context, error) {
	// gRPC itself would refuse this, out of reach of any handler.
	if name, ok := strings.CutPrefix(method, "/"); !ok || !strings.Contains(name, "/") {
		return ctx, unknownMethod(fmt.Sprintf("malformed method name: %q", method))
	}
	if ctx.Err() != nil {
		return ctx, grpcError(ctx, ctx.Err())
	}
	ctx, err := s.identifyCall(ctx, method)
	if err != nil {
		return ctx, err
	}
	if isLookup(method) {
		if refused := s.atHeaders(ctx); refused != nil {
			c := s.begin()
			defer c.end(ctx)
			return ctx, c.failGRPC(ctx, refused)
		}
	}
	if c == nil || c.memory == nil {
		return ctx, nil
	}
	call, err := c.memory.Begin(nil)
	if err != nil {
		return ctx, grpcError(ctx, err)
	}
	abortable, cancel := context.WithCancelCause(ctx)
	abort := func() { cancel(&memory.Error{Reason: memory.Slow}) }
	return context.WithValue(context.WithValue(abortable, callKey{}, call), abortKey{}, abort), nil
}

// atHeaders refuses a lookup only by who asks, before its keys are decoded; nil lets it
// continue. See admission.Controller.AtHeaders.
func (s *Server) atHeaders(ctx context.Context) error {
	if refused := s.deps.Admission.AtHeaders(identity.FromContext(ctx)); refused != nil {
		return refused
	}
	return nil
}

// isLookup reports whether a method reads keys.
func isLookup(method string) bool {
	return method == qosproxyv1.QosProxy_BatchGet_FullMethodName || method == qosproxyv1.QosProxy_StreamBatchGet_FullMethodName
}

// expireInterval is how often requests and answers are checked for taking too long.
const expireInterval = time.Second

// expire ends requests that do not arrive and answers that are not read, until ctx ends.
func (s *Server) expire(ctx context.Context) {
	tick := time.NewTicker(expireInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.memory.Expire(requestTimeout, s.cfg.Limits.WriteTimeout)
		case <-ctx.Done():
			return
		}
	}
}
