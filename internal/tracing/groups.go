package tracing

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
)

// group is the keys that the plan asked of one host, with all attempts for them.
type group struct {
	host       string
	keys       int
	attempts   []*lookup.Attempt
	start, end time.Duration
}

// groupsOf returns the groups of a record. Each first attempt begins a group; hedges
// and fail-overs belong to the group whose keys they ask. A fail-over without an
// earlier attempt begins one, too: it replaced a host that had too much outstanding
// to be asked. Waits for other lookups are returned separately, as coalesced.
func groupsOf(attempts []lookup.Attempt) (groups []*group, coalesced []*lookup.Attempt) {
	of := make(map[int]*group)
	for i := range attempts {
		a := &attempts[i]
		if a.Kind == executor.KindCoalesced {
			coalesced = append(coalesced, a)
			continue
		}
		var g *group
		if a.Kind != executor.KindFirst && len(a.Keys) > 0 {
			g = of[a.Keys[0]]
		}
		if g == nil {
			g = &group{host: a.Host, keys: len(a.Keys), start: a.Start}
			groups = append(groups, g)
			for _, k := range a.Keys {
				of[k] = g
			}
		}
		g.attempts = append(g.attempts, a)
		g.end = max(g.end, a.End)
	}
	return groups, coalesced
}

// spans makes the spans below that of a lookup.
type spans struct {
	*Lookup
	begin time.Time
	// target is keyspace.table.
	target string
	table  []attribute.KeyValue
}

// groups makes the spans of what was sent for a lookup.
func (l *Lookup) groups(o *Outcome) {
	keyspace, table := o.Table.Schema.Keyspace, o.Table.Schema.Name
	s := &spans{Lookup: l, begin: o.Record.Start, target: keyspace + "." + table}
	query := "SELECT " + s.target
	s.table = []attribute.KeyValue{
		semconv.DBSystemNameCassandra, semconv.DBNamespace(keyspace), semconv.DBCollectionName(table),
		semconv.DBOperationName("SELECT"), semconv.DBQuerySummary(query),
		semconv.CassandraConsistencyLevelKey.String(strings.ToLower(string(o.Record.Consistency))),
	}
	groups, coalesced := groupsOf(o.Record.Attempts)
	for _, a := range coalesced {
		s.coalesced(a)
	}
	for _, g := range groups {
		ctx, span := l.tracer.tracer.Start(l.ctx, "group "+s.target, s.at(g.start),
			trace.WithAttributes(hostKey.String(g.host), keysKey.Int(g.keys)))
		for _, a := range g.attempts {
			_, attempt := l.tracer.tracer.Start(ctx, query, trace.WithSpanKind(trace.SpanKindClient), s.at(a.Start), trace.WithAttributes(s.table...))
			describe(attempt, a)
			attempt.End(s.at(a.End))
		}
		span.End(s.at(g.end))
	}
}

func (s *spans) at(d time.Duration) trace.SpanEventOption { return trace.WithTimestamp(s.begin.Add(d)) }

// coalesced makes the span of a wait for keys that another lookup was reading.
func (s *spans) coalesced(a *lookup.Attempt) {
	_, span := s.tracer.tracer.Start(s.ctx, "coalesced "+s.target, s.at(a.Start),
		trace.WithAttributes(keysKey.Int(len(a.Keys)), outcomeKey.String(string(a.Outcome))))
	span.End(s.at(a.End))
}

// describe sets the host and the outcome of an attempt on its span.
func describe(span trace.Span, a *lookup.Attempt) {
	attrs := make([]attribute.KeyValue, 0, 11)
	host, port := address(a.Host)
	attrs = append(attrs, hostKey.String(a.Host), semconv.ServerAddress(host), attemptKey.String(string(a.Kind)),
		keysKey.Int(len(a.Keys)), outcomeKey.String(string(a.Outcome)))
	if port > 0 {
		attrs = append(attrs, semconv.ServerPort(port))
	}
	if a.HedgeAfter >= 0 {
		attrs = append(attrs, hedgeAfterKey.Float64(a.HedgeAfter.Seconds()))
	}
	if a.NotHedged != "" {
		attrs = append(attrs, notHedgedKey.String(string(a.NotHedged)))
	}
	if a.StatementKeys > 0 {
		attrs = append(attrs, statementKeysKey.Int(a.StatementKeys))
	}
	if a.Outcome == executor.OutcomeFailed {
		attrs = append(attrs, semconv.ErrorTypeKey.String(string(a.Err)))
		span.SetStatus(codes.Error, string(a.Err))
	}
	span.SetAttributes(attrs...)
}
