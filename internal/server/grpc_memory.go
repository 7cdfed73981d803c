package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/qosproxy/qosproxy/internal/memory"
)

// registrar registers services whose calls are received and answered within the memory
// budget. gRPC's own interceptors see a call too late for that: when its message has
// arrived whole.
type registrar struct {
	*grpc.Server
	server *Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i := range own.Methods {
		own.Methods[i].Handler = r.server.unary("/"+desc.ServiceName+"/"+own.Methods[i].MethodName, desc.Methods[i].Handler)
	}
	own.Streams = slices.Clone(desc.Streams)
	for i := range own.Streams {
		own.Streams[i].Handler = r.server.stream(desc.Streams[i].Handler)
	}
	r.Server.RegisterService(&own, impl)
}

// unary guards the handler of a unary method: it turns a panic into INTERNAL, and counts
// request and answer in the memory budget.
func (s *Server) unary(method string, handle grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		if refused := refusalOf(ctx); refused != nil {
			return nil, refused
		}
		start, call := time.Now(), callOf(ctx)
		received, sending := time.Time{}, &outgoing{}
		var failed error
		answerPlainly(ctx)
		defer func() {
			if r := recover(); r != nil {
				sending.answer.Sent()
				out, err = nil, incidentError(s.deps.Incidents.Record(ctx, method, r))
			}
			call.End()
			s.waited(ctx, received, failed)
			s.access(ctx, method, status.Code(err).String(), start)
		}()
		defer s.endAtShutdown(ctx, method)()
		out, err = handle(srv, context.WithValue(ctx, answerKey{}, sending), func(into any) error {
			failed = s.receive(ctx, method, call, decode, into)
			received = time.Now()
			return failed
		}, interceptor)
		if err == nil {
			err = sending.take(call, out.(proto.Message))
		}
		if err != nil {
			return nil, asStatus(ctx, err)
		}
		return sending, nil
	}
}

// stream does the same for the handler of a stream.
func (s *Server) stream(handle grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		ctx, start, call := stream.Context(), time.Now(), callOf(stream.Context())
		if refused := refusalOf(ctx); refused != nil {
			return refused
		}
		method, _ := grpc.MethodFromServerStream(stream)
		answerPlainly(ctx)
		counted := &countedStream{ServerStream: stream, server: s, call: call, method: method}
		defer func() {
			if r := recover(); r != nil {
				err = incidentError(s.deps.Incidents.Record(ctx, method, r))
			}
			call.End()
			s.waited(ctx, start, counted.failed)
			s.access(ctx, method, status.Code(err).String(), start)
		}()
		defer s.endAtShutdown(ctx, method)()
		return asStatus(ctx, handle(srv, counted))
	}
}

// asStatus returns err if it has a status, as most errors have, and otherwise its
// grpcError. status.FromError would turn the others into UNKNOWN.
func asStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[statusError](err); ok {
		return err
	}
	return grpcError(ctx, err)
}

// statusError is an error with a status of its own.
type statusError interface {
	error
	GRPCStatus() *status.Status
}

// unknown answers calls of methods that do not exist, with the same guards as all others.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	return s.stream(func(any, grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		return unknownMethod("unknown method " + method)
	})(nil, stream)
}

// countedStream is a stream whose messages count in the memory budget.
type countedStream struct {
	grpc.ServerStream
	server *Server
	call   *memory.Call
	method string
	// failed is why the last message was not received.
	failed error
}

// RecvMsg implements grpc.ServerStream.
func (h *countedStream) RecvMsg(into any) error {
	h.failed = h.server.receive(h.Context(), h.method, h.call, h.ServerStream.RecvMsg, into)
	return h.failed
}

// SendMsg implements grpc.ServerStream. It returns within the write timeout.
func (h *countedStream) SendMsg(m any) error {
	out, err := outgoingOf(h.call, m.(proto.Message), abortOf(h.Context()))
	if err != nil {
		return err
	}
	return h.ServerStream.SendMsg(out)
}

// compressed reports whether messages of a call may be compressed.
func compressed(ctx context.Context) bool {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	return ok && stream.RecvCompress() != "" && stream.RecvCompress() != encoding.Identity
}

// answerPlainly stops gRPC from compressing the answers to a compressed request: it gives a
// buffer back once it is compressed, and the result would wait for its reader uncounted.
func answerPlainly(ctx context.Context) {
	if compressed(ctx) {
		_ = grpc.SetSendCompressor(ctx, encoding.Identity) // fails only for a stream that is gone
	}
}

// incoming is a message to decode into, with the memory that it takes.
type incoming struct {
	message any
	call    *memory.Call
	// inflated is the maximum size of what gRPC has decompressed by the time of decoding,
	// in bytes.
	inflated int
	// wire is the number of bytes received, as far as known; bytes is how many the message
	// takes in memory; err is why it was not decoded. Returned by the codec, gRPC would
	// answer it with INTERNAL.
	wire, bytes int
	err         error
}

// expand takes memory for the bytes of a message and for the elements into which it is
// decoded. A nil incoming takes none.
func (in *incoming) expand(elements int) error {
	if elements > maxElements {
		return tooManyElements("")
	}
	if in == nil {
		return nil
	}
	in.bytes += elements * elementBytes
	return in.call.Expect(in.inflated + in.bytes)
}

// refuse stores why the message is not decoded, for receive, and returns the error for the
// codec.
func (in *incoming) refuse(err error) error {
	if in == nil {
		return err
	}
	in.err = err
	return nil
}

// receive decodes the message of a call, unless the call is evicted before the message has
// arrived: gRPC itself would end such a call with CANCELLED and no reason.
func (s *Server) receive(ctx context.Context, method string, call *memory.Call, decode func(any) error, into any) error {
	in := &incoming{message: into, call: call}
	if call == nil {
		err := decode(in)
		return cmp.Or(err, in.err)
	}
	if compressed(ctx) {
		in.inflated = 2 * s.cfg.MaxRequestBytes // gRPC decompresses a second message before it refuses it
	}
	if err := call.Expect(in.inflated); err != nil {
		return err
	}
	decoded := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				decoded <- incidentError(s.deps.Incidents.Record(ctx, method, r))
			}
		}()
		decoded <- decode(in)
	}()
	select {
	case err := <-decoded:
		if err = cmp.Or(err, in.err); err == nil {
			err = call.Complete(in.wire, in.bytes)
		}
		return err
	case <-call.Gone():
		return call.Err()
	}
}

// outgoing is a message that counts until gRPC has written it.
type outgoing struct {
	message proto.Message
	answer  *memory.Answer
}

// take takes the memory for the answer of a unary call, once. The error is a *memory.Error.
func (o *outgoing) take(call *memory.Call, m proto.Message) (err error) {
	if o.message != nil {
		return nil
	}
	o.message = m
	o.answer, err = call.Answer(proto.Size(m), nil)
	return err
}

// answerKey is the context key of the *outgoing of a unary call.
type answerKey struct{}

// takeAnswer takes the memory for the answer of a unary call before its handler returns, so
// that the observer of a lookup learns when there is none.
func takeAnswer(ctx context.Context, m proto.Message) error {
	sending, ok := ctx.Value(answerKey{}).(*outgoing)
	if !ok {
		return nil
	}
	return sending.take(callOf(ctx), m)
}

// outgoingOf takes the memory for a message. The error is a *memory.Error. abort ends the
// call; it may be nil.
func outgoingOf(call *memory.Call, m proto.Message, abort func()) (any, error) {
	if call == nil {
		return m, nil
	}
	answer, err := call.Answer(proto.Size(m), abort)
	if err != nil {
		return nil, err
	}
	return &outgoing{m, answer}, nil
}
