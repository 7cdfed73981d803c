package main

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/shadow"
)

// grpcPath reads lookups through the gRPC listener of a proxy. Cells are Cassandra's own
// bytes, as the driver returns them.
type grpcPath struct {
	client qosproxyv1.QosProxyClient
	proxy  proxyFlags
}

// Read implements shadow.Path.
func (g *grpcPath) Read(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// No deadline is set: the proxy would use it as that of the lookup.
	defer time.AfterFunc(req.Timeout+answerTimeout, func() { cancel(errNoAnswer) }).Stop()
	message := batchGetOf(req)
	start := time.Now()
	resp, err := g.client.BatchGet(ctx, message)
	took := time.Since(start)
	if resp = answered(resp, err); resp == nil {
		if errors.Is(context.Cause(ctx), errNoAnswer) {
			return nil, errNoAnswer
		}
		return nil, g.proxy.explainError(err)
	}
	a := &shadow.Answer{Results: make([]partition.Result, len(resp.GetResults())), Sent: int(resp.GetStats().GetSubQueries()), Elapsed: took}
	types, names, err := wireTypes(resp.GetColumns())
	if err != nil {
		return nil, err
	}
	for i, t := range types {
		a.Columns = append(a.Columns, schema.Column{Name: names[i], Type: t})
	}
	for i, r := range resp.GetResults() {
		a.Results[i] = resultOf(r)
	}
	return a, nil
}

// batchGetOf returns a request as a message.
func batchGetOf(req *lookup.Request) *qosproxyv1.BatchGetRequest {
	t := req.Table.Schema
	out := &qosproxyv1.BatchGetRequest{
		Keyspace: t.Keyspace, Table: t.Name, LimitPerKey: int32(req.LimitPerKey), Encoding: qosproxyv1.Encoding_ENCODING_CQL,
		Consistency: string(req.Consistency), MinKeys: int32(req.MinKeys), Keys: make([]*qosproxyv1.Key, len(req.Keys)),
	}
	if req.Timeout > 0 {
		out.Timeout = durationpb.New(req.Timeout)
	}
	if req.SoftDeadline > 0 {
		out.SoftDeadline = durationpb.New(req.SoftDeadline)
	}
	for i, k := range req.Keys {
		out.Keys[i] = &qosproxyv1.Key{Components: cqlValues(k.Components())}
	}
	// All columns are named, because a running proxy may allow other columns than this
	// configuration.
	columns := req.Columns
	if len(columns) == 0 {
		columns = req.Table.Columns
	}
	for _, c := range columns {
		out.Columns = append(out.Columns, c.Name)
	}
	if req.Slice != nil {
		for _, r := range req.Slice.Restrictions {
			out.Where = append(out.Where, &qosproxyv1.Condition{
				Column: t.Clustering[r.Column].Name, Operator: wireOperators[r.Operator], Values: cqlValues(r.Values),
			})
		}
		if req.Slice.Reverse {
			out.Order = qosproxyv1.Order_ORDER_REVERSE
		}
	}
	return out
}

// wireOperators maps operators to those of the protocol.
var wireOperators = map[partition.Operator]qosproxyv1.Operator{
	partition.Equal:          qosproxyv1.Operator_OPERATOR_EQUAL,
	partition.In:             qosproxyv1.Operator_OPERATOR_IN,
	partition.Greater:        qosproxyv1.Operator_OPERATOR_GREATER,
	partition.GreaterOrEqual: qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL,
	partition.Less:           qosproxyv1.Operator_OPERATOR_LESS,
	partition.LessOrEqual:    qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL,
}

func cqlValues(cells [][]byte) []*qosproxyv1.Value {
	out := make([]*qosproxyv1.Value, len(cells))
	for i, c := range cells {
		out[i] = &qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: c}}
	}
	return out
}

// statusOf maps statuses of the protocol to those of partition.
var statusOf = map[qosproxyv1.KeyStatus]partition.Status{
	qosproxyv1.KeyStatus_KEY_STATUS_FOUND:       partition.Found,
	qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND:   partition.NotFound,
	qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT:   partition.TimedOut,
	qosproxyv1.KeyStatus_KEY_STATUS_UNAVAILABLE: partition.Unavailable,
	qosproxyv1.KeyStatus_KEY_STATUS_SHED:        partition.Shed,
	qosproxyv1.KeyStatus_KEY_STATUS_TOO_LARGE:   partition.TooLarge,
	qosproxyv1.KeyStatus_KEY_STATUS_FAILED:      partition.Failed,
}

// resultOf returns the result of a key; it is Failed if its status is unknown here.
func resultOf(r *qosproxyv1.KeyResult) partition.Result {
	out := partition.Result{Status: partition.Failed}
	if s, known := statusOf[r.GetStatus()]; known {
		out.Status = s
	}
	for _, row := range r.GetRows() {
		cells := make(partition.Row, len(row.GetValues()))
		for i, v := range row.GetValues() {
			cells[i] = cell(v)
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}
