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

// registrar registers services whose calls are received and answered within the budget
// of memory. gRPC's own interceptors see a call too late for that: when its message has
// come whole.
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

// unary guards the handler of a unary method: a panic becomes INTERNAL, and request and
// answer are held to the budget.
func (s *Server) unary(method string, handle grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		if refused := refusalOf(ctx); refused != nil {
			return nil, refused
		}
		start, call := time.Now(), callOf(ctx)
		received, sending := time.Time{}, &outgoing{}
		answerPlainly(ctx)
		defer func() {
			if r := recover(); r != nil {
				sending.answer.Sent()
				out, err = nil, incidentError(s.deps.Incidents.Record(ctx, method, r))
			}
			call.End()
			s.waited(ctx, received)
			s.access(ctx, method, status.Code(err).String(), start)
		}()
		defer s.endAtShutdown(ctx, method)()
		out, err = handle(srv, context.WithValue(ctx, answerKey{}, sending), func(into any) error {
			err := s.receive(ctx, method, call, decode, into)
			received = time.Now()
			return err
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
		defer func() {
			if r := recover(); r != nil {
				err = incidentError(s.deps.Incidents.Record(ctx, method, r))
			}
			call.End()
			s.waited(ctx, start)
			s.access(ctx, method, status.Code(err).String(), start)
		}()
		defer s.endAtShutdown(ctx, method)()
		return asStatus(ctx, handle(srv, &countedStream{ServerStream: stream, server: s, call: call, method: method}))
	}
}

// asStatus returns an error as a status: most are one already, others are grpcError's.
// status.FromError would make a status of the others first.
func asStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[statusError](err); ok {
		return err
	}
	return grpcError(ctx, err)
}

// statusError is an error that has its status.
type statusError interface {
	error
	GRPCStatus() *status.Status
}

// unknown answers the calls of methods that do not exist, by the ways of all others.
func (s *Server) unknown(_ any, stream grpc.ServerStream) error {
	return s.stream(func(any, grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		return unknownMethod("unknown method " + method)
	})(nil, stream)
}

// countedStream is a stream whose messages are held to the budget.
type countedStream struct {
	grpc.ServerStream
	server *Server
	call   *memory.Call
	method string
}

// RecvMsg implements grpc.ServerStream.
func (h *countedStream) RecvMsg(into any) error {
	return h.server.receive(h.Context(), h.method, h.call, h.ServerStream.RecvMsg, into)
}

// SendMsg implements grpc.ServerStream. It returns within the write timeout.
func (h *countedStream) SendMsg(m any) error {
	out, err := outgoingOf(h.call, m.(proto.Message), abortOf(h.Context()))
	if err != nil {
		return err
	}
	return h.ServerStream.SendMsg(out)
}

// compressed reports whether the messages of a call may be.
func compressed(ctx context.Context) bool {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	return ok && stream.RecvCompress() != "" && stream.RecvCompress() != encoding.Identity
}

// answerPlainly has gRPC not compress the answers of a call, which it does for a request that
// is: it gives a buffer back when it is compressed, and what it became would wait uncounted.
func answerPlainly(ctx context.Context) {
	if compressed(ctx) {
		_ = grpc.SetSendCompressor(ctx, encoding.Identity) // fails for a stream that is gone
	}
}

// incoming is a message to decode into.
type incoming struct {
	message any
	call    *memory.Call
	// inflated is what gRPC may have made of a compressed message by the time it is decoded.
	inflated int
	// wire is how many bytes of it have come, as far as is known, bytes is how many it takes, and err is why it was not decoded: gRPC would answer an error
	// of the codec with INTERNAL.
	wire, bytes int
	err         error
}

// expand takes memory for a copy of a message, and for so many elements that it becomes. A nil
// incoming takes none.
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

// refuse keeps why the message is not decoded, for receive, and returns the error of the codec.
func (in *incoming) refuse(err error) error {
	if in == nil {
		return err
	}
	in.err = err
	return nil
}

// receive decodes the message of a call, unless that has to go before it has come. gRPC
// itself would end such a call as CANCELLED only.
func (s *Server) receive(ctx context.Context, method string, call *memory.Call, decode func(any) error, into any) error {
	in := &incoming{message: into, call: call}
	if call == nil {
		err := decode(in)
		return cmp.Or(err, in.err)
	}
	if compressed(ctx) {
		in.inflated = 2 * s.cfg.MaxRequestBytes // of a unary call gRPC decodes a second, to refuse it
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

// outgoing is a message that is counted until gRPC has written it.
type outgoing struct {
	message proto.Message
	answer  *memory.Answer
}

// take takes the memory for the answer of a unary call, once; the error is a *memory.Error.
func (o *outgoing) take(call *memory.Call, m proto.Message) (err error) {
	if o.message != nil {
		return nil
	}
	o.message = m
	o.answer, err = call.Answer(proto.Size(m), nil)
	return err
}

// answerKey is the context key of what a unary call sends.
type answerKey struct{}

// takeAnswer takes the memory for the answer of a unary call before its handler returns, so
// that the observer of a lookup is told when there is none.
func takeAnswer(ctx context.Context, m proto.Message) error {
	sending, ok := ctx.Value(answerKey{}).(*outgoing)
	if !ok {
		return nil
	}
	return sending.take(callOf(ctx), m)
}

// outgoingOf takes the memory for a message; the error is a *memory.Error. abort, which
// may be nil, ends the call.
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
