// Package fake is a proxy with its rows in memory instead of a cluster, for tests of
// applications. It decides only which rows and faults there are. Listeners, statuses, limits
// and deadlines are those of the real proxy, whose lookup service it uses.
package fake

import (
	"context"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Header is the HTTP header, and the gRPC metadata key, by which a request asks for faults.
const Header = "qosproxy-fake"

// unlimited is a limit that no test reaches. A lookup must not be shed, or the only host
// ejected, because of other lookups.
const unlimited = 1 << 30

// Fake answers lookups from rows in memory. It implements server.Lookup and is safe for
// concurrent use.
type Fake struct {
	*lookup.Service
	executor *executor.Executor
	data     atomic.Pointer[generation]
}

// generation is the data in use and the previous data, with which running lookups may have
// begun.
type generation struct {
	now, before *Data
}

// table returns the rows of the table that a lookup was resolved with; nil if the data has been
// replaced twice since.
func (g *generation) table(of *schema.Table) *table {
	if t := g.now.tables[of]; t != nil || g.before == nil {
		return t
	}
	return g.before.tables[of]
}

// New returns a Fake that serves data. Close it to end its background work.
func New(data *Data) *Fake {
	f := &Fake{}
	f.data.Store(&generation{now: data})
	current := func() *ring.Ring { return f.data.Load().now.ring }
	f.executor = executor.New(executor.Config{
		Reader: executor.ReaderFunc(f.read), Ring: current, Avoidance: executor.AvoidNothing,
		Limits: executor.Limits{InflightKeys: unlimited, EjectAfter: unlimited},
	})
	f.Service = lookup.New(lookup.Config{
		Tables: data.settings, Ring: current, Schema: func() *schema.Schema { return f.data.Load().now.schema }, Executor: f.executor,
	})
	return f
}

// Replace sets the data for all lookups that begin from now on.
func (f *Fake) Replace(data *Data) {
	f.data.Store(&generation{now: data, before: f.data.Load().now})
	f.SetTables(data.settings)
}

// Close ends the background work. It must be called after all lookups have ended.
func (f *Fake) Close() { f.executor.Close() }

// Get is lookup.Service.Get with the faults of the table and of the request.
func (f *Fake) Get(ctx context.Context, req *lookup.Request) (*lookup.Response, error) {
	ctx, err := f.withFaults(ctx, req)
	if err != nil {
		return nil, err
	}
	return f.Service.Get(ctx, req)
}

// Stream is lookup.Service.Stream with the faults of the table and of the request.
func (f *Fake) Stream(ctx context.Context, req *lookup.Request, emit func(int, partition.Result) error) (lookup.Stats, error) {
	ctx, err := f.withFaults(ctx, req)
	if err != nil {
		return lookup.Stats{}, err
	}
	return f.Service.Stream(ctx, req, emit)
}

// HTTPContext returns the context of an HTTP request. It moves the faults of the request's
// header to the place where a gRPC call has them. It is the HTTPContext of server.Deps.
func HTTPContext(ctx context.Context, r *http.Request) context.Context {
	asked := r.Header.Values(Header)
	if len(asked) == 0 {
		return ctx
	}
	return metadata.NewIncomingContext(ctx, metadata.MD{Header: asked})
}

// read answers the keys of a sub-query after the longest delay of their faults.
func (f *Fake) read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	defer q.Settled()
	results := make([]partition.Result, len(q.Keys))
	t := f.data.Load().table(q.Table)
	if t == nil {
		return nil, &executor.ReadError{Reason: executor.ReasonInvalid, Err: errReloaded}
	}
	faults, slowest := faultsOf(ctx), (*fault)(nil)
	for i, k := range q.Keys {
		results[i] = t.answer(q, k)
		if fault := faults.on(q.Table, k); fault != nil {
			fault.spoil(&results[i])
			if slowest == nil || fault.delay > slowest.delay {
				slowest = fault
			}
		}
	}
	if err := slowest.wait(ctx); err != nil {
		return nil, err
	}
	return results, nil
}
