package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// grpcService is the service qosproxy.v1.QosProxy.
type grpcService struct {
	qosproxyv1.UnimplementedQosProxyServer
	server *Server
	// describing is held while a ring is being described.
	describing sync.Mutex
}

// newGRPC returns the gRPC server with its services registered.
func (s *Server) newGRPC() *grpc.Server {
	options := append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.tap),
		grpc.UnknownServiceHandler(s.unknown),
	}, s.grpcLimits()...)
	if s.cfg.GRPC.TLS.CertFile != "" {
		options = append(options, grpc.Creds(handshaken{insecure.NewCredentials()}))
	}
	g := grpc.NewServer(append(options, s.deps.GRPCOptions...)...)
	r := registrar{g, s}
	qosproxyv1.RegisterQosProxyServer(r, &grpcService{server: s})
	healthpb.RegisterHealthServer(r, s.health)
	reflection.Register(r)
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
	GetEncoding() qosproxyv1.Encoding
	GetWhere() []*qosproxyv1.Condition
	GetOrder() qosproxyv1.Order
	GetConsistency() string
	GetPaging() bool
	GetPageTokens() []string
}

// parseGRPC converts a gRPC request, decoded by codec, and returns the encoder it asks
// for.
func parseGRPC(in lookupRequest) (*parsedRequest, *encoder, error) {
	encode, err := encoderFor(in.GetEncoding())
	if err != nil {
		return nil, nil, err
	}
	p := &parsedRequest{
		keyspace: in.GetKeyspace(),
		table:    in.GetTable(),
		columns:  in.GetColumns(),
		limit:    int(in.GetLimitPerKey()),
		minKeys:  int(in.GetMinKeys()),
		keys:     countKeys(in),
		encoder:  func(t *schema.Table) keyEncoder { return wireKeys(t, encodedKeys(in)) },
		optional: optionalPositions(in.GetOptionalKeys()),

		reverse:     in.GetOrder() == qosproxyv1.Order_ORDER_REVERSE,
		consistency: in.GetConsistency(),
		paging:      in.GetPaging(),
		pageTokens:  in.GetPageTokens(),
		where:       whereValues(in.GetWhere()),
	}
	if _, known := qosproxyv1.Order_name[int32(in.GetOrder())]; !known {
		return nil, nil, lookup.Invalid("order", "no such order; leave it out for clustering order")
	}
	if p.timeout, err = durationOf("timeout", in.GetTimeout()); err != nil {
		return nil, nil, err
	}
	p.soft, err = durationOf("soft_deadline", in.GetSoftDeadline())
	return p, encode, err
}

// durationOf returns a duration of a request; 0 if it is unset.
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

// BatchGet answers all keys in one response.
func (g *grpcService) BatchGet(ctx context.Context, in *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	c := g.server.begin()
	defer c.end(ctx)
	c.traceGRPC(ctx, endpointBatchGet)
	p, encode, err := parseGRPC(in)
	if err != nil {
		return nil, c.failGRPC(ctx, err)
	}
	p.trace = in.GetExplain()
	req, resp, err := c.lookUp(ctx, p, c.get)
	if err != nil {
		return nil, c.failGRPC(ctx, err)
	}
	var results []byte
	if resp.Stats.Refused < len(resp.Results) {
		// Before the lookup is judged: encoding makes a key with undecodable rows FAILED.
		results = encode.results(req.Columns, resp.Results)
	}
	c.judge(ctx, resp)
	if c.outcome.grpc != codes.OK {
		return nil, unansweredError(c.outcome, resp)
	}
	out := &qosproxyv1.BatchGetResponse{Columns: columnsOf(req.Columns), Stats: statsOf(resp.Stats)}
	out.Partial, out.UnprocessedKeys = leftover(resp.Results)
	if p.trace {
		if out.Explanation, err = explanationOf(resp); err != nil {
			return nil, c.failGRPC(ctx, err)
		}
	}
	attach(out, results)
	if err := takeAnswer(ctx, out); err != nil {
		return nil, c.failGRPC(ctx, err)
	}
	return out, nil
}

// StreamBatchGet sends each key as soon as it is answered. When admission refuses the
// lookup, the stream ends like a call in which no key was answered.
func (g *grpcService) StreamBatchGet(in *qosproxyv1.StreamBatchGetRequest, stream grpc.ServerStreamingServer[qosproxyv1.StreamBatchGetResponse]) error {
	ctx := stream.Context()
	c := g.server.begin()
	defer c.end(ctx)
	c.traceGRPC(ctx, endpointStreamBatchGet)
	p, encode, err := parseGRPC(in)
	if err != nil {
		return c.failGRPC(ctx, err)
	}
	k := &keyStream{call: c, encode: encode, stream: stream}
	defer func() { k.unsent.Sent() }()
	_, resp, err := c.lookUp(ctx, p, k.get)
	if err != nil {
		_, full := errors.AsType[*memory.Error](err)
		err = c.failGRPC(ctx, err)
		if !c.done.IsZero() && !full && errors.As(context.Cause(ctx), new(*memory.Error)) {
			c.outcome = cancelled // by its reader, who was too slow: the hosts had answered
		}
		return err
	}
	c.judge(ctx, resp)
	if c.refusal != nil {
		return unansweredError(c.outcome, resp)
	}
	summary := &qosproxyv1.StreamSummary{Stats: statsOf(resp.Stats)}
	summary.Partial, summary.UnprocessedKeys = leftover(resp.Results)
	if err := stream.Send(&qosproxyv1.StreamBatchGetResponse{Part: &qosproxyv1.StreamBatchGetResponse_Summary{Summary: summary}}); err != nil {
		return c.failGRPC(ctx, err)
	}
	return nil
}

// Explain returns the plan of a lookup. The observer does not see it: it reads nothing.
func (g *grpcService) Explain(ctx context.Context, in *qosproxyv1.ExplainRequest) (*qosproxyv1.ExplainResponse, error) {
	c := g.server.begin()
	req, err := c.resolve(ctx, &parsedRequest{
		keyspace: in.GetKeyspace(),
		table:    in.GetTable(),
		keys:     countKeys(in),
		encoder:  func(t *schema.Table) keyEncoder { return wireKeys(t, encodedKeys(in)) },
	})
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	plan, err := g.server.explain(ctx, req)
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	return &qosproxyv1.ExplainResponse{Plan: plan}, nil
}

// explain returns the plan of a lookup, which counts towards the share of its client.
func (s *Server) explain(ctx context.Context, req *lookup.Request) (*qosproxyv1.Plan, error) {
	if err := s.deps.Admission.Charge(identity.FromContext(ctx), len(req.Keys)); err != nil {
		return nil, err
	}
	plan, err := s.deps.Lookup.Explain(ctx, req)
	if err != nil {
		return nil, err
	}
	return planOf(plan)
}

// notReady is the error while there is no ring. Why there is none may name nodes of the
// cluster: the admin listener tells operators.
func (s *Server) notReady() error {
	return &lookup.Error{Reason: reasons.NotReady, Message: "the proxy does not know the cluster yet; retry in a moment"}
}

// ListTables returns the tables that the client may read.
func (g *grpcService) ListTables(ctx context.Context, _ *qosproxyv1.ListTablesRequest) (*qosproxyv1.ListTablesResponse, error) {
	tables, err := g.server.list(ctx)
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	out := &qosproxyv1.ListTablesResponse{Tables: make([]*qosproxyv1.Table, len(tables))}
	for i, t := range tables {
		out.Tables[i] = tableOf(t)
	}
	return out, nil
}
