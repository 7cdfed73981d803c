package server

import (
	"errors"
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/explain"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// statusesOf maps partition.Status to the status on the wire.
var statusesOf = [...]qosproxyv1.KeyStatus{
	partition.Found:       qosproxyv1.KeyStatus_KEY_STATUS_FOUND,
	partition.NotFound:    qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND,
	partition.TimedOut:    qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT,
	partition.Unavailable: qosproxyv1.KeyStatus_KEY_STATUS_UNAVAILABLE,
	partition.Shed:        qosproxyv1.KeyStatus_KEY_STATUS_SHED,
	partition.TooLarge:    qosproxyv1.KeyStatus_KEY_STATUS_TOO_LARGE,
	partition.Failed:      qosproxyv1.KeyStatus_KEY_STATUS_FAILED,
}

// kindsOf maps cqltype.Kind to the type kind on the wire.
var kindsOf = [...]qosproxyv1.TypeKind{
	cqltype.ASCII:     qosproxyv1.TypeKind_TYPE_KIND_ASCII,
	cqltype.BigInt:    qosproxyv1.TypeKind_TYPE_KIND_BIGINT,
	cqltype.Blob:      qosproxyv1.TypeKind_TYPE_KIND_BLOB,
	cqltype.Boolean:   qosproxyv1.TypeKind_TYPE_KIND_BOOLEAN,
	cqltype.Counter:   qosproxyv1.TypeKind_TYPE_KIND_COUNTER,
	cqltype.Date:      qosproxyv1.TypeKind_TYPE_KIND_DATE,
	cqltype.Decimal:   qosproxyv1.TypeKind_TYPE_KIND_DECIMAL,
	cqltype.Double:    qosproxyv1.TypeKind_TYPE_KIND_DOUBLE,
	cqltype.Duration:  qosproxyv1.TypeKind_TYPE_KIND_DURATION,
	cqltype.Empty:     qosproxyv1.TypeKind_TYPE_KIND_EMPTY,
	cqltype.Float:     qosproxyv1.TypeKind_TYPE_KIND_FLOAT,
	cqltype.Inet:      qosproxyv1.TypeKind_TYPE_KIND_INET,
	cqltype.Int:       qosproxyv1.TypeKind_TYPE_KIND_INT,
	cqltype.SmallInt:  qosproxyv1.TypeKind_TYPE_KIND_SMALLINT,
	cqltype.Text:      qosproxyv1.TypeKind_TYPE_KIND_TEXT,
	cqltype.Time:      qosproxyv1.TypeKind_TYPE_KIND_TIME,
	cqltype.Timestamp: qosproxyv1.TypeKind_TYPE_KIND_TIMESTAMP,
	cqltype.TimeUUID:  qosproxyv1.TypeKind_TYPE_KIND_TIMEUUID,
	cqltype.TinyInt:   qosproxyv1.TypeKind_TYPE_KIND_TINYINT,
	cqltype.UUID:      qosproxyv1.TypeKind_TYPE_KIND_UUID,
	cqltype.VarInt:    qosproxyv1.TypeKind_TYPE_KIND_VARINT,
	cqltype.List:      qosproxyv1.TypeKind_TYPE_KIND_LIST,
	cqltype.Set:       qosproxyv1.TypeKind_TYPE_KIND_SET,
	cqltype.Map:       qosproxyv1.TypeKind_TYPE_KIND_MAP,
	cqltype.Tuple:     qosproxyv1.TypeKind_TYPE_KIND_TUPLE,
	cqltype.UDT:       qosproxyv1.TypeKind_TYPE_KIND_UDT,
	cqltype.Vector:    qosproxyv1.TypeKind_TYPE_KIND_VECTOR,
	cqltype.Custom:    qosproxyv1.TypeKind_TYPE_KIND_CUSTOM,
}

// columnKindsOf maps schema.ColumnKind to the column kind on the wire.
var columnKindsOf = [...]qosproxyv1.ColumnKind{
	schema.PartitionKey: qosproxyv1.ColumnKind_COLUMN_KIND_PARTITION_KEY,
	schema.Clustering:   qosproxyv1.ColumnKind_COLUMN_KIND_CLUSTERING,
	schema.Static:       qosproxyv1.ColumnKind_COLUMN_KIND_STATIC,
	schema.Regular:      qosproxyv1.ColumnKind_COLUMN_KIND_REGULAR,
}

// typeOf converts a type. It panics for a kind without a number on the wire, which only a
// mistake in this package can cause: an incident is better than a guess.
func typeOf(t *cqltype.Type) *qosproxyv1.Type {
	out := &qosproxyv1.Type{Kind: kindsOf[t.Kind], Name: t.String(), FieldNames: t.Fields, Dimension: int32(t.Dimension)}
	for _, e := range t.Elems {
		out.Elements = append(out.Elements, typeOf(e))
	}
	return out
}

func columnsOf(columns []schema.Column) []*qosproxyv1.Column {
	out := make([]*qosproxyv1.Column, len(columns))
	for i, c := range columns {
		out[i] = &qosproxyv1.Column{Name: c.Name, Type: typeOf(c.Type), Kind: columnKindsOf[c.Kind]}
	}
	return out
}

// leftover reports whether some key was not answered, and returns the positions of the
// unprocessed keys.
func leftover(results []partition.Result) (partial bool, positions []int32) {
	for i := range results {
		partial = partial || !results[i].Status.Answered()
		if unprocessed(results[i].Status) {
			positions = append(positions, int32(i))
		}
	}
	return partial, positions
}

func statsOf(s lookup.Stats) *qosproxyv1.Stats {
	return &qosproxyv1.Stats{
		Keys:       int32(s.Keys),
		Groups:     int32(s.Groups),
		SubQueries: int32(s.SubQueries),
		Hedges:     int32(s.Hedges),
		Failovers:  int32(s.Failovers),
		Coalesced:  int32(s.Coalesced),
		Elapsed:    durationpb.New(s.Elapsed),
	}
}

// explanationOf converts the plan and the attempts of a traced lookup. It fails for a word
// that the API does not know.
func explanationOf(resp *lookup.Response) (*qosproxyv1.Explanation, error) {
	plan, err := planOf(resp.Plan)
	if err != nil {
		return nil, err
	}
	out := &qosproxyv1.Explanation{Plan: plan}
	if resp.Deadline > 0 {
		out.Deadline = durationpb.New(resp.Deadline)
	}
	if resp.SoftDeadline > 0 {
		out.SoftDeadline = durationpb.New(resp.SoftDeadline)
	}
	for _, a := range resp.Attempts {
		attempt, err := attemptOf(a)
		if err != nil {
			return nil, err
		}
		out.Attempts = append(out.Attempts, attempt)
	}
	return out, nil
}

func attemptOf(a lookup.Attempt) (*qosproxyv1.Attempt, error) {
	kind, kindErr := explain.Kind(a.Kind)
	outcome, outcomeErr := explain.Outcome(a.Outcome)
	failure, failureErr := explain.AttemptError(a.Err)
	notHedged, hedgeErr := explain.NotHedged(a.NotHedged)
	if err := errors.Join(kindErr, outcomeErr, failureErr, hedgeErr); err != nil {
		return nil, err
	}
	out := &qosproxyv1.Attempt{
		Host: a.Host, Kind: kind, Keys: positionsOf(a.Keys), Start: durationpb.New(a.Start), End: durationpb.New(a.End),
		Outcome: outcome, Error: string(a.Err), ErrorKind: failure, NotHedged: string(a.NotHedged), NotHedgedKind: notHedged,
		OwnData: a.OwnData, StatementKeys: int32(min(a.StatementKeys, math.MaxInt32)),
	}
	if a.HedgeAfter >= 0 {
		out.HedgeAfter = durationpb.New(a.HedgeAfter)
	}
	return out, nil
}

// planOf converts a plan, which may be nil. It fails for a word that the API does not know.
func planOf(p *lookup.Plan) (*qosproxyv1.Plan, error) {
	out := &qosproxyv1.Plan{}
	if p == nil {
		return out, nil
	}
	var err error
	for _, k := range p.Keys {
		planned := &qosproxyv1.PlannedKey{Token: k.Token}
		for _, h := range k.Replicas {
			planned.Replicas = append(planned.Replicas, h.Addr)
		}
		if k.Group >= 0 {
			group := int32(k.Group)
			planned.Group = &group
		}
		planned.Groups, planned.Compared = positionsOf(k.Groups), k.Compared.String()
		if planned.Comparison, err = explain.Comparison(planned.GetCompared()); err != nil {
			return nil, err
		}
		out.Keys = append(out.Keys, planned)
	}
	for _, g := range p.Groups {
		out.Groups = append(out.Groups, &qosproxyv1.PlannedGroup{Host: hostOf(g.Host), Keys: positionsOf(g.Keys)})
	}
	for _, h := range p.Hosts {
		avoidance, err := explain.Avoidance(h.Avoided)
		if err != nil {
			return nil, err
		}
		out.Hosts = append(out.Hosts, &qosproxyv1.PlannedHost{Host: hostOf(h.Host), Avoided: string(h.Avoided), Avoidance: avoidance})
	}
	out.Stressed, out.Quorum, out.Fallback = p.Stressed, p.Quorum, p.Fallback.String()
	if out.FallbackComparison, err = explain.Comparison(out.GetFallback()); err != nil {
		return nil, err
	}
	out.GroupSize = int32(min(p.Size.Keys, math.MaxInt32))
	if p.Size.KeyCost > 0 {
		out.StatementCost, out.KeyCost = durationpb.New(p.Size.StatementCost), durationpb.New(p.Size.KeyCost)
	}
	return out, nil
}

func positionsOf(keys []int) []int32 {
	out := make([]int32, len(keys))
	for i, k := range keys {
		out[i] = int32(k)
	}
	return out
}

func hostOf(h ring.Host) *qosproxyv1.Host {
	return &qosproxyv1.Host{
		Id:         h.ID,
		Address:    h.Addr,
		Datacenter: h.DC,
		Rack:       h.Rack,
		Release:    h.Release,
		Tokens:     int32(len(h.Tokens)),
	}
}

func tableOf(t *lookup.Table) *qosproxyv1.Table {
	return &qosproxyv1.Table{
		Keyspace:         t.Schema.Keyspace,
		Name:             t.Schema.Name,
		PartitionKey:     columnsOf(t.Schema.PartitionKey),
		Columns:          columnsOf(t.Columns),
		MaxKeys:          int32(t.Settings.MaxKeys),
		MaxRowsPerKey:    int32(t.Settings.MaxRowsPerKey),
		MaxResponseBytes: int64(t.Settings.MaxResponseBytes),
		Timeout:          durationpb.New(t.Settings.Timeout),
		Consistency:      string(t.Settings.Consistency),
		Clustering:       columnsOf(t.Schema.Clustering),
		Consistencies:    t.Levels(),
	}
}
