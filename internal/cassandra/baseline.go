package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Baseline reads as an application does that uses the driver without the proxy: the driver chooses
// the coordinator. The proxy is compared with it. It is safe for concurrent use.
type Baseline struct {
	session     *gocql.Session
	speculation gocql.SpeculativeExecutionPolicy
}

// BaselineConfig says how a Baseline reads.
type BaselineConfig struct {
	Config
	// OnlyContactPoints sends all reads to the contact points. These may be nodes outside the ring,
	// which no list of peers names. Otherwise reads of one key go to a replica, and others to the
	// nodes in turn.
	OnlyContactPoints bool
	// SpeculativeDelay is the delay of the driver's own speculative execution, with
	// one further attempt; 0 turns it off.
	SpeculativeDelay time.Duration
	// PageSize is the page size of the reads, in rows; 0 reads unpaged.
	PageSize int
}

// DriverPageSize is the page size of the driver when nobody sets one, in rows.
const DriverPageSize = 5000

// OpenBaseline opens a session. It is configured like that of a Cluster except for the choice of
// hosts, speculation and page size, so that only these make a difference.
func OpenBaseline(ctx context.Context, cfg BaselineConfig) (*Baseline, error) {
	complete, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	types, err := rawTypes()
	if err != nil {
		return nil, err
	}
	d := driverConfig(complete)
	d.RegisteredTypes = types
	d.PageSize = cfg.PageSize
	d.MaxPreparedStmts = maxPrepared
	d.DefaultIdempotence = true
	if cfg.OnlyContactPoints {
		d.DisableInitialHostLookup = true
		d.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	} else {
		d.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy(), gocql.ShuffleReplicas())
		// Hosts that were not looked up have no datacenter: the filter would drop them all.
		if complete.LocalDC != "" {
			d.HostFilter = gocql.DataCenterHostFilter(complete.LocalDC)
		}
	}
	s, err := newSession(ctx, d, complete.Incidents)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(complete.endpoints(), ", "), err)
	}
	b := &Baseline{session: s, speculation: gocql.NonSpeculativeExecution{}}
	if cfg.SpeculativeDelay > 0 {
		b.speculation = &gocql.SimpleSpeculativeExecution{NumAttempts: 1, TimeoutDelay: cfg.SpeculativeDelay}
	}
	return b, nil
}

// errNoOwner refuses a read at NODE_LOCAL whose coordinator the driver would choose: a node without
// a replica answers that there are no rows.
var errNoOwner = errors.New("NODE_LOCAL is for reads at an owner of the keys")

// Close ends the session.
func (b *Baseline) Close() { b.session.Close() }

// In reads all keys with one statement, at a coordinator that the driver chooses. It is for tables
// whose partition key is one column. An error applies to all keys.
func (b *Baseline) In(ctx context.Context, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
	return b.in(ctx, "", q, keys)
}

// Single reads every key with a statement of its own, all at the same time. The failure of a key is
// in its result.
func (b *Baseline) Single(ctx context.Context, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
	r, err := b.reading(q, keys)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			alone := span{i, i + 1}
			if err := b.ask(ctx, r, r.one(r.named(alone)), r.arguments(alone, 0), alone); err != nil {
				r.results[i] = failed(err)
			}
		})
	}
	all.Wait()
	return r.results, nil
}

// At reads keys with one statement at the host with the given id: an IN over the last column of the
// partition key. The keys must agree in all other columns. NODE_LOCAL needs a host with a replica
// of each key, which is not checked. An error applies to all keys.
func (b *Baseline) At(ctx context.Context, host string, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
	return b.in(ctx, host, q, keys)
}

// in reads keys with one statement that varies the last column of the partition key, at the given
// host. If host is empty, the driver chooses it.
func (b *Baseline) in(ctx context.Context, host string, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
	r, err := b.reading(q, keys)
	if err != nil {
		return nil, err
	}
	r.Host.ID = host
	r.vary(len(q.Table.PartitionKey) - 1)
	all := span{0, len(keys)}
	text := r.one(r.named(all))
	if len(keys) > 1 {
		text = r.in(r.named(all))
	}
	if err := b.ask(ctx, r, text, r.arguments(all, math.MaxInt32), all); err != nil {
		return nil, err
	}
	return r.results, nil
}

func (b *Baseline) reading(q *executor.Query, keys []partition.Key) (*reading, error) {
	level, err := levelNodeLocal, error(nil)
	if q.Consistency != NodeLocal {
		level, err = consistency(string(q.Consistency))
	}
	if err != nil {
		return nil, err
	}
	r := &reading{
		SubQuery: &executor.SubQuery{Query: q, Keys: keys}, selection: newSelection(q),
		level: level, results: make([]partition.Result, len(keys)),
	}
	r.left = &r.bytes
	r.left.Store(math.MaxInt64)
	return r, nil
}

// ask runs one statement and stores the results of the keys of s.
func (b *Baseline) ask(ctx context.Context, r *reading, text string, args []any, s span) error {
	if r.level == levelNodeLocal && r.Host.ID == "" {
		return errNoOwner
	}
	query := b.session.Query(text, args...).Consistency(r.level).SetSpeculativeExecutionPolicy(b.speculation)
	if r.Host.ID != "" {
		query = query.SetHostID(r.Host.ID)
	}
	return newCollector(r, s).collect(query.IterContext(ctx))
}
