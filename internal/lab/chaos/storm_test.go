package chaos

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// storm is a set of callers who do not wait for their answers: lookups are cancelled after a random
// time, and now and then a connection is cut during one of them.
type storm struct {
	address string
	// request returns the n-th lookup.
	request func(n int) *qosproxyv1.BatchGetRequest
	lookups int
	callers int
	// patience is the longest time before a lookup is cancelled.
	patience time.Duration
	// cut is the mean number of lookups after which a caller's connection is cut.
	cut int
}

// stormed counts how the lookups of a storm ended.
type stormed struct{ answered, cancelled, other, cuts atomic.Int64 }

// run makes the lookups and returns when all have ended and all connections are closed.
func (s *storm) run(ctx context.Context) (*stormed, error) {
	var (
		seen  stormed
		next  atomic.Int64
		all   sync.WaitGroup
		first error
		once  sync.Once
	)
	for range s.callers {
		all.Go(func() {
			if err := s.caller(ctx, &next, &seen); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return &seen, first
}

// caller makes lookups one after the other until the storm has enough.
func (s *storm) caller(ctx context.Context, next *atomic.Int64, seen *stormed) error {
	var mu sync.Mutex
	var wire net.Conn
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", address)
		mu.Lock()
		defer mu.Unlock()
		wire = c
		return c, err
	}
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		return err
	}
	defer conn.Close()
	rpc := qosproxyv1.NewQosProxyClient(conn)
	for ctx.Err() == nil {
		n := int(next.Add(1))
		if n > s.lookups {
			break
		}
		one, cancel := context.WithCancel(ctx)
		cut := rand.IntN(s.cut) == 0
		timer := time.AfterFunc(rand.N(s.patience), func() {
			mu.Lock()
			defer mu.Unlock()
			if cut && wire != nil {
				seen.cuts.Add(1)
				reset(wire)
			}
			cancel()
		})
		_, err := rpc.BatchGet(one, s.request(n), grpc.WaitForReady(true))
		timer.Stop()
		cancel()
		switch status.Code(err) {
		case codes.OK:
			seen.answered.Add(1)
		case codes.Canceled:
			seen.cancelled.Add(1)
		default:
			seen.other.Add(1)
		}
	}
	return ctx.Err()
}

// reset ends a connection abruptly, by RST in place of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
