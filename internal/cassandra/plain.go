package cassandra

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Plain reads as an application does that uses the driver by itself: the driver
// chooses the coordinator. It is what the proxy is compared with. It is safe for
// concurrent use.
type Plain struct {
	session     *gocql.Session
	speculation gocql.SpeculativeExecutionPolicy
}

// PlainConfig says how a Plain reads.
type PlainConfig struct {
	Config
	// OnlyContactPoints sends everything to the contact points, which may be nodes
	// that have not joined the ring and that no list of peers names. Otherwise reads
	// of one key go to a replica, and others to the nodes in turn.
	OnlyContactPoints bool
	// SpeculativeDelay is the delay of the driver's own speculative execution, with
	// one further attempt; 0 turns it off.
	SpeculativeDelay time.Duration
	// PageSize is that of the reads in rows; 0 reads unpaged.
	PageSize int
}

// DriverPageSize is the page size of the driver when nobody sets one, in rows.
const DriverPageSize = 5000

// OpenPlain opens a session. Besides the choice of hosts, speculation and page
// size it is set as that of a Cluster is, so that these alone make a difference.
func OpenPlain(ctx context.Context, cfg PlainConfig) (*Plain, error) {
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
	s, err := newSession(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(complete.endpoints(), ", "), err)
	}
	p := &Plain{session: s, speculation: gocql.NonSpeculativeExecution{}}
	if cfg.SpeculativeDelay > 0 {
		p.speculation = &gocql.SimpleSpeculativeExecution{NumAttempts: 1, TimeoutDelay: cfg.SpeculativeDelay}
	}
	return p, nil
}

// Close ends the session.
func (p *Plain) Close() { p.session.Close() }

// In reads all keys by one statement, which some node coordinates. It is for
// tables whose partition key is one column. An error is for all keys.
func (p *Plain) In(ctx context.Context, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
	r, err := p.reading(q, keys)
	if err != nil {
		return nil, err
	}
	list := make([][]byte, len(keys))
	for i, k := range keys {
		list[i] = k.Routing()
	}
	if err := p.ask(ctx, r, r.many(), []any{rawList(list)}, span{0, len(keys)}); err != nil {
		return nil, err
	}
	return r.results, nil
}

// Single reads every key by a statement of its own, all at the same time. What
// befalls a key is in its result.
func (p *Plain) Single(ctx context.Context, q *executor.Query, keys []partition.Key) ([]partition.Result, error) {
	r, err := p.reading(q, keys)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	for i, k := range keys {
		all.Go(func() {
			var args []any
			for _, c := range k.Components() {
				args = append(args, rawValue(c))
			}
			if err := p.ask(ctx, r, r.one(), args, span{i, i + 1}); err != nil {
				r.results[i] = failed(err)
			}
		})
	}
	all.Wait()
	return r.results, nil
}

func (p *Plain) reading(q *executor.Query, keys []partition.Key) (*reading, error) {
	level, err := consistency(q.Consistency)
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

// ask runs one statement and keeps the rows of the keys of s.
func (p *Plain) ask(ctx context.Context, r *reading, text string, args []any, s span) error {
	if r.limited() {
		args = append(args, r.rowsPerKey())
	}
	query := p.session.Query(text, args...).Consistency(r.level).SetSpeculativeExecutionPolicy(p.speculation)
	return newCollector(r, s).collect(query.IterContext(ctx))
}
