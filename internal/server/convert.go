package server

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// statusesOf are the wire statuses by partition.Status.
var statusesOf = [...]qosproxyv1.KeyStatus{
	partition.Found:       qosproxyv1.KeyStatus_KEY_STATUS_FOUND,
	partition.NotFound:    qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND,
	partition.TimedOut:    qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT,
	partition.Unavailable: qosproxyv1.KeyStatus_KEY_STATUS_UNAVAILABLE,
	partition.Shed:        qosproxyv1.KeyStatus_KEY_STATUS_SHED,
	partition.TooLarge:    qosproxyv1.KeyStatus_KEY_STATUS_TOO_LARGE,
	partition.Failed:      qosproxyv1.KeyStatus_KEY_STATUS_FAILED,
}

// kindsOf are the wire type kinds by cqltype.Kind.
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

func typeOf(t *cqltype.Type) *qosproxyv1.Type {
	out := &qosproxyv1.Type{Name: t.String(), FieldNames: t.Fields, Dimension: int32(t.Dimension)}
	if int(t.Kind) < len(kindsOf) {
		out.Kind = kindsOf[t.Kind]
	}
	for _, e := range t.Elems {
		out.Elements = append(out.Elements, typeOf(e))
	}
	return out
}

func columnsOf(columns []schema.Column) []*qosproxyv1.Column {
	out := make([]*qosproxyv1.Column, len(columns))
	for i, c := range columns {
		// The wire has one more kind than schema, in front: unspecified.
		out[i] = &qosproxyv1.Column{Name: c.Name, Type: typeOf(c.Type), Kind: qosproxyv1.ColumnKind(c.Kind) + 1}
	}
	return out
}

// leftover reports whether some key was not answered, and which keys are worth
// asking again.
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

func explanationOf(resp *lookup.Response) *qosproxyv1.Explanation {
	out := &qosproxyv1.Explanation{Plan: planOf(resp.Plan)}
	if resp.Deadline > 0 {
		out.Deadline = durationpb.New(resp.Deadline)
	}
	if resp.SoftDeadline > 0 {
		out.SoftDeadline = durationpb.New(resp.SoftDeadline)
	}
	for _, a := range resp.Attempts {
		attempt := &qosproxyv1.Attempt{
			Host:    a.Host,
			Kind:    qosproxyv1.AttemptKind(qosproxyv1.AttemptKind_value["ATTEMPT_KIND_"+strings.ToUpper(a.Kind)]),
			Keys:    positionsOf(a.Keys),
			Start:   durationpb.New(a.Start),
			End:     durationpb.New(a.End),
			Outcome: qosproxyv1.AttemptOutcome(qosproxyv1.AttemptOutcome_value["ATTEMPT_OUTCOME_"+strings.ToUpper(a.Outcome)]),
			Error:   a.Err,

			NotHedged: a.NotHedged,
		}
		if a.HedgeAfter >= 0 {
			attempt.HedgeAfter = durationpb.New(a.HedgeAfter)
		}
		out.Attempts = append(out.Attempts, attempt)
	}
	return out
}

func planOf(p *lookup.Plan) *qosproxyv1.Plan {
	out := &qosproxyv1.Plan{}
	if p == nil {
		return out
	}
	for _, k := range p.Keys {
		planned := &qosproxyv1.PlannedKey{Token: k.Token}
		for _, h := range k.Replicas {
			planned.Replicas = append(planned.Replicas, h.Addr)
		}
		if k.Group >= 0 {
			group := int32(k.Group)
			planned.Group = &group
		}
		out.Keys = append(out.Keys, planned)
	}
	for _, g := range p.Groups {
		out.Groups = append(out.Groups, &qosproxyv1.PlannedGroup{Host: hostOf(g.Host), Keys: positionsOf(g.Keys)})
	}
	for _, h := range p.Hosts {
		out.Hosts = append(out.Hosts, &qosproxyv1.PlannedHost{Host: hostOf(h.Host), Avoided: h.Avoided})
	}
	out.Stressed = p.Stressed
	return out
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
		Consistency:      t.Settings.Consistency,
	}
}

// ringOf describes one keyspace, or every keyspace that has a placement when the
// name is empty.
func ringOf(r *ring.Ring, keyspace string, ranges bool) (*qosproxyv1.DescribeRingResponse, error) {
	out := &qosproxyv1.DescribeRingResponse{LocalDatacenter: r.LocalDC()}
	for _, h := range r.Hosts() {
		out.Hosts = append(out.Hosts, hostOf(h))
	}
	names := []string{keyspace}
	if keyspace == "" {
		names = r.Keyspaces()
	}
	for _, name := range names {
		p, ok := r.Placement(name)
		if ok {
			out.Keyspaces = append(out.Keyspaces, keyspaceOf(name, p, ranges))
		} else if keyspace != "" {
			return nil, &lookup.Error{Kind: lookup.ErrUnknownTable, Field: "keyspace", Message: r.PlacementError(name).Error()}
		}
	}
	return out, nil
}

func keyspaceOf(name string, p *ring.Placement, ranges bool) *qosproxyv1.KeyspaceRing {
	out := &qosproxyv1.KeyspaceRing{Keyspace: name, Ownership: p.Ownership()}
	if !ranges {
		return out
	}
	for t := range p.Ranges() {
		replicas := make([]int32, len(t.Replicas))
		for i, h := range t.Replicas {
			replicas[i] = int32(h)
		}
		out.Ranges = append(out.Ranges, &qosproxyv1.TokenRange{Start: t.Start, End: t.End, Replicas: replicas})
	}
	return out
}
