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

// The mean pauses before a retry where the proxy asks for none: firstPause, twice as long
// each time, and no longer than longestPause. A pause is from none to twice the mean.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// errPatience is the cause of a call that ended for want of an answer.
var errPatience = errors.New("no answer within " + patience.String() + " of a call without deadline")

// bounded returns the context of a call, which has a deadline or an end of patience.
// The latter is not sent: the timeout of the table is not to be overruled.
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

// retryUnary makes unary calls with their deadline and credentials, and again.
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

// retry makes a call until it succeeds or another is of no use, and returns the
// error of the last.
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

// remedy reports whether a call may succeed that is made again, and after what
// time.
func (c *Client) remedy(err error, pause time.Duration) (time.Duration, bool) {
	s := status.Convert(err)
	reason, asked := detailsOf(s)
	switch {
	case s.Code() == codes.Unavailable && reason == "":
		// Not of a proxy: the connection failed. A proxy that is gone takes many
		// callers with it, who should not come back all at once.
		return time.Duration(2 * float64(pause) * rand.Float64()), true
	case s.Code() == codes.Unavailable && asked > 0, s.Code() == codes.ResourceExhausted && asked > 0 && c.options.RetryShed:
		return time.Duration(float64(asked) * (1 + 0.2*rand.Float64())), true
	default:
		return 0, false
	}
}

// detailsOf returns why a proxy failed a call, empty when it was none, and after
// what time it may be asked again, 0 for never.
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

// sleep waits, and reports whether there is time left then.
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

// budget keeps retries from multiplying the load of proxies that fail: a failure
// costs a token, a success earns a tenth of one, and a retry needs half of them.
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

// spend charges a failure, and reports whether a retry may follow.
func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths = max(b.tenths-10, 0)
	return b.tenths >= fullBudget/2
}
