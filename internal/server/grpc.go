package server

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// grpcService is the service qosproxy.v1.QosProxy.
type grpcService struct {
	qosproxyv1.UnimplementedQosProxyServer
	server *Server
}

// newGRPC returns the gRPC server with its services registered.
func (s *Server) newGRPC() *grpc.Server {
	options := append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.guardUnary, s.identifyUnary),
		grpc.ChainStreamInterceptor(s.guardStream, s.identifyStream),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.tap),
	}, s.grpcLimits()...)
	if s.cfg.GRPC.TLS.CertFile != "" {
		options = append(options, grpc.Creds(handshaken{insecure.NewCredentials()}))
	}
	g := grpc.NewServer(append(options, s.deps.GRPCOptions...)...)
	qosproxyv1.RegisterQosProxyServer(g, &grpcService{server: s})
	healthpb.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	return g
}

// lookupRequest is what BatchGet and StreamBatchGet have in common.
type lookupRequest interface {
	proto.Message
	GetKeyspace() string
	GetTable() string
	GetColumns() []string
	GetLimitPerKey() int32
	GetTimeout() *durationpb.Duration
	GetSoftDeadline() *durationpb.Duration
	GetMinKeys() int32
	GetOptionalKeys() []int32
}

// questionOf words a gRPC request, from codec, as a question.
func questionOf(in lookupRequest) (*question, error) {
	keys := encodedKeys(in)
	q := &question{
		keyspace: in.GetKeyspace(),
		table:    in.GetTable(),
		columns:  in.GetColumns(),
		limit:    int(in.GetLimitPerKey()),
		minKeys:  int(in.GetMinKeys()),
		keys:     len(keys),
		encoder:  func(t *schema.Table) keyEncoder { return wireKeys(t, keys) },
		optional: optionalPositions(in.GetOptionalKeys()),
	}
	var err error
	if q.timeout, err = durationOf("timeout", in.GetTimeout()); err != nil {
		return nil, err
	}
	q.soft, err = durationOf("soft_deadline", in.GetSoftDeadline())
	return q, err
}

// durationOf returns a duration of a request, 0 when it brings none.
func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, lookup.Invalid(field, "not a valid duration")
	}
	if d.AsDuration() <= 0 {
		return 0, lookup.Invalid(field, "%s is not above zero; leave it out for none", d.AsDuration())
	}
	return d.AsDuration(), nil
}

// BatchGet answers with all keys at once.
func (g *grpcService) BatchGet(ctx context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	c := g.server.begin()
	defer c.end(ctx)
	c.traceGRPC(ctx, doorBatchGet)
	encode, err := encoderFor(in.GetEncoding())
	if err != nil {
		return nil, grpcError(ctx, c.refuse(ctx, err))
	}
	q, err := questionOf(in)
	if err != nil {
		return nil, grpcError(ctx, c.refuse(ctx, err))
	}
	q.trace = in.GetExplain()
	req, err := c.resolve(ctx, q)
	if err != nil {
		return nil, grpcError(ctx, c.refuse(ctx, err))
	}
	bounded, cancel := ahead(ctx)
	defer cancel()
	resp, err := c.get(bounded, req)
	if err != nil {
		return nil, grpcError(ctx, c.refuse(ctx, err))
	}
	out := &qosproxyv1.BatchGetResponse{Columns: columnsOf(req.Columns)}
	var results []byte
	if c.refused == nil {
		// Before the lookup is judged: a key whose rows cannot be decoded becomes FAILED.
		results = encode.results(req.Columns, resp.Results)
	}
	c.judge(ctx, resp.Results)
	out.Partial, out.UnprocessedKeys = leftover(resp.Results)
	out.Stats = statsOf(resp.Stats)
	if q.trace {
		out.Explanation = explanationOf(resp)
	}
	if c.outcome.grpc != 0 {
		return nil, unansweredError(c.outcome, out, resp.Results)
	}
	attach(out, results)
	return out, nil
}

// StreamBatchGet answers each key as soon as it is there.
func (g *grpcService) StreamBatchGet(in *qosproxyv1.StreamBatchGetRequest, stream grpc.ServerStreamingServer[qosproxyv1.StreamBatchGetResponse]) error {
	ctx := stream.Context()
	c := g.server.begin()
	defer c.end(ctx)
	c.traceGRPC(ctx, doorStreamBatchGet)
	encode, err := encoderFor(in.GetEncoding())
	if err != nil {
		return grpcError(ctx, c.refuse(ctx, err))
	}
	q, err := questionOf(in)
	if err != nil {
		return grpcError(ctx, c.refuse(ctx, err))
	}
	req, err := c.resolve(ctx, q)
	if err != nil {
		return grpcError(ctx, c.refuse(ctx, err))
	}
	return g.stream(ctx, c, req, encode, stream)
}

// stream sends header, results and summary of a resolved request.
func (g *grpcService) stream(ctx context.Context, c *call, req *lookup.Request, encode *encoder, stream grpc.ServerStreamingServer[qosproxyv1.StreamBatchGetResponse]) error {
	bounded, cancel := ahead(ctx)
	defer cancel()
	permit := c.admit(bounded, req)
	if c.refused != nil {
		return c.refuseStream(ctx)
	}
	defer permit.Release(admission.Outcome{}) // where there is none: an error, a panic
	// The header goes out with the first result: a request that the service
	// refuses gets its error alone.
	header := func() error {
		return stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Header{
			Header: &qosproxyv1.StreamHeader{Columns: columnsOf(req.Columns)}}})
	}
	sent := false
	results := make([]partition.Result, len(req.Keys))
	stats, err := g.server.deps.Lookup.Stream(bounded, req, func(i int, r partition.Result) error {
		if !sent {
			sent = true
			if err := header(); err != nil {
				return err
			}
		}
		out := &qosproxyv1.KeyResult{}
		encode.buf = encode.buf[:0] // sent by the time the next key is answered
		encode.result(req.Columns, &r)
		attach(out, encode.buf)
		results[i] = partition.Result{Status: r.Status, Bytes: r.Bytes, Err: r.Err}
		return stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Result{
			Result: &qosproxyv1.StreamResult{Index: int32(i), Result: out}}})
	})
	if err != nil {
		return grpcError(ctx, c.refuse(ctx, err))
	}
	permit.Release(ended(results, req.Table.Settings.MaxResponseBytes))
	c.resp = &lookup.Response{Results: results, Stats: stats}
	c.judge(ctx, results)
	summary := &qosproxyv1.StreamSummary{Stats: statsOf(stats)}
	summary.Partial, summary.UnprocessedKeys = leftover(results)
	return stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Summary{Summary: summary}})
}

// refuseStream ends a stream that admission has refused like a call of which no
// key was answered: with an error that tells so of each key.
func (c *call) refuseStream(ctx context.Context) error {
	c.judge(ctx, c.resp.Results)
	out := &qosproxyv1.BatchGetResponse{Stats: statsOf(c.resp.Stats)}
	out.Partial, out.UnprocessedKeys = leftover(c.resp.Results)
	return unansweredError(c.outcome, out, c.resp.Results)
}

// Explain returns the plan of a lookup. It is not observed: it reads nothing.
func (g *grpcService) Explain(ctx context.Context, in *qosproxyv1.ExplainRequest) (*qosproxyv1.ExplainResponse, error) {
	c := g.server.begin()
	keys := in.GetKeys()
	req, err := c.resolve(ctx, &question{
		keyspace: in.GetKeyspace(),
		table:    in.GetTable(),
		keys:     len(keys),
		encoder:  func(t *schema.Table) keyEncoder { return valueKeys(t, keys) },
	})
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	plan, err := g.server.deps.Lookup.Explain(ctx, req)
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	return &qosproxyv1.ExplainResponse{Plan: planOf(plan)}, nil
}

// DescribeRing returns who owns what. A client sees the keyspaces of which it may
// read a table.
func (g *grpcService) DescribeRing(ctx context.Context, in *qosproxyv1.DescribeRingRequest) (*qosproxyv1.DescribeRingResponse, error) {
	if err := g.server.mayDescribe(ctx, in.GetKeyspace()); err != nil {
		return nil, grpcError(ctx, err)
	}
	snapshot := g.server.deps.Lookup.Ring()
	if snapshot == nil {
		return nil, grpcError(ctx, g.server.notReady())
	}
	out, err := ringOf(snapshot, in.GetKeyspace(), in.GetIncludeRanges())
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	access := identity.FromContext(ctx).Access
	out.Keyspaces = slices.DeleteFunc(out.GetKeyspaces(), func(k *qosproxyv1.KeyspaceRing) bool { return !access.Keyspace(k.GetKeyspace()) })
	return out, nil
}

// notReady says that there is no ring yet. Why is for operators alone, who ask at
// the admin listener: it may name the nodes of the cluster.
func (s *Server) notReady() error {
	return &lookup.Error{Kind: lookup.ErrNotReady, Message: "the proxy does not know the cluster yet; retry in a moment"}
}

// ListTables returns the tables that the client may read.
func (g *grpcService) ListTables(ctx context.Context, _ *qosproxyv1.ListTablesRequest) (*qosproxyv1.ListTablesResponse, error) {
	tables := g.server.tables(ctx)
	out := &qosproxyv1.ListTablesResponse{Tables: make([]*qosproxyv1.Table, len(tables))}
	for i, t := range tables {
		out.Tables[i] = tableOf(t)
	}
	return out, nil
}
