package qosproxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The mean pauses before a retry if the proxy asks for none: firstPause, then doubled up
// to longestPause. Each pause is drawn between 0 and twice the mean.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// errPatience is the cause with which a call without deadline is cancelled.
var errPatience = errors.New("no answer within " + patience.String() + " of a call without deadline")

// bounded returns a context that ends the call: by a deadline, or by a timer after
// patience. A deadline would be sent and override the timeout of the table.
func (c *Client) bounded(ctx context.Context) (context.Context, func()) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	if c.options.Timeout > 0 {
		return context.WithTimeout(ctx, c.options.Timeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(errPatience) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// retryUnary is an interceptor that adds deadline, credentials and retries to unary
// calls.
func (c *Client) retryUnary(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return c.retry(ctx, func() error {
		ctx, err := c.authorize(ctx)
		if err != nil {
			return err
		}
		return invoke(ctx, method, in, out, conn, o...)
	})
}

// retry makes a call until it succeeds or another attempt is of no use. It returns the
// error of the last one.
func (c *Client) retry(ctx context.Context, call func() error) error {
	pause := firstPause
	for again := 0; ; again++ {
		err := call()
		if err == nil {
			c.budget.earn()
			return nil
		}
		if errors.Is(context.Cause(ctx), errPatience) {
			return status.Error(codes.DeadlineExceeded, errPatience.Error())
		}
		wait, ok := c.remedy(err, pause)
		if !ok || again >= c.options.Retries || !c.budget.spend() || !sleep(ctx, wait) {
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// remedy reports whether a retry of a call that failed with err may succeed, and after
// which pause.
func (c *Client) remedy(err error, pause time.Duration) (time.Duration, bool) {
	s := status.Convert(err)
	reason, asked := detailsOf(s)
	switch {
	case s.Code() == codes.Unavailable && reason == "":
		// The error is not from a proxy: the connection failed. A proxy that is gone
		// takes many callers with it, and they should not all come back at once.
		return time.Duration(2 * float64(pause) * rand.Float64()), true
	case s.Code() == codes.Unavailable && asked > 0, s.Code() == codes.ResourceExhausted && asked > 0 && c.options.RetryShed:
		return time.Duration(float64(asked) * (1 + 0.2*rand.Float64())), true
	default:
		return 0, false
	}
}

// detailsOf returns why a proxy failed a call, empty if no proxy did, and the pause after
// which it may be asked again, 0 for never.
func detailsOf(s *status.Status) (reason string, retry time.Duration) {
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		}
	}
	return reason, retry
}

// sleep waits for d. It returns false, possibly at once, if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// budget keeps retries from multiplying the load on proxies that fail. A failure costs
// one token, a success earns a tenth of one, and a retry needs half of all tokens.
type budget struct {
	mu     sync.Mutex
	tenths int
}

const fullBudget = 100

func newBudget() budget { return budget{tenths: fullBudget} }

func (b *budget) earn() {
	b.mu.Lock()
	b.tenths = min(b.tenths+1, fullBudget)
	b.mu.Unlock()
}

// spend charges a failure and reports whether it may be retried.
func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths = max(b.tenths-10, 0)
	return b.tenths >= fullBudget/2
}
