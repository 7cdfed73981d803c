package qosproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // Watches which proxies are ready.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// The values of Options that are zero.
const (
	// DefaultRetries is how often a call is made again at most.
	DefaultRetries = 2
	// DefaultKeepalive is how often an idle connection is pinged.
	DefaultKeepalive = 20 * time.Second
	// DefaultMaxAnswerBytes is the largest answer that is taken: what the default
	// max_response_bytes of a table, 4 MiB of cells, can come to with rows of the
	// smallest cells.
	DefaultMaxAnswerBytes = 64 << 20
)

const (
	// patience is how long a call waits that has no deadline at all.
	patience = 10 * time.Second
	// pingTimeout is how long a ping may stay unanswered before the connection
	// counts as broken.
	pingTimeout = 5 * time.Second
	// minKeepalive is the shortest interval of pings that a proxy tolerates.
	minKeepalive = 10 * time.Second
	// streamWindow and connWindow are how many bytes a proxy may send ahead of the reader, by
	// call and by connection. They are fixed: gRPC would otherwise find them by a ping after
	// nearly each answer, which costs both ends a packet, and tell the proxy of each answer read.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// serviceConfig spreads calls over all addresses of the target, but for those
// whose proxy says by the health service that it is not ready or shuts down.
const serviceConfig = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`

// Options say how to reach a proxy. The zero Options reach one without TLS.
type Options struct {
	// TLS encrypts the connection; nil does not. TLSFiles makes one of PEM files.
	TLS *tls.Config
	// Token returns the bearer token of the client, for each call anew; nil sends
	// none. TokenFile makes one of a file. A token needs TLS or a unix socket.
	Token func() (string, error)
	// PlaintextToken lets Token go over a connection without TLS, where something
	// else encrypts it, such as a service mesh.
	PlaintextToken bool
	// SocketName says over a unix socket who the client is; empty says nothing.
	SocketName string
	// Timeout is the deadline of calls whose context has none. 0 sends none, so that
	// the timeout of the table applies, and gives up after 10 s without an answer.
	Timeout time.Duration
	// Retries is how often a call is made again that failed as a whole and before
	// any answer: when the proxy could not be reached, or says that it may help and
	// the deadline allows the time that it asks for. 0 is DefaultRetries, a negative
	// number is none.
	Retries int
	// RetryShed also retries lookups that were shed (RESOURCE_EXHAUSTED), after the
	// time that the proxy asks for. It adds load where there is too much already:
	// for callers who rather wait.
	RetryShed bool
	// Keepalive is how often an idle connection is pinged, no less than 10 s, so
	// that a proxy which is gone without a word is noticed. 0 is DefaultKeepalive, a
	// negative duration pings never.
	Keepalive time.Duration
	// MaxAnswerBytes is the largest answer that is taken; 0 is
	// DefaultMaxAnswerBytes.
	MaxAnswerBytes int
	// GRPC are further options of the connection, such as interceptors; they come
	// last and so prevail.
	GRPC []grpc.DialOption
}

// Client makes lookups. It is safe for concurrent use; one is enough for a process.
type Client struct {
	conn    *grpc.ClientConn
	api     qosproxyv1.QosProxyClient
	options Options
	budget  budget
}

// Dial returns a client of the proxies at a target in gRPC's notation:
//
//	dns:///qosproxy.example.org:50051   every address of a name (the default scheme)
//	unix:///run/qosproxy/grpc.sock      a sidecar
//
// Calls go to the ready proxies of the target in turn. Addresses are resolved again
// when a connection ends, which proxies see to every half hour, so that new ones
// get their share.
//
// It connects in the background and when first used, so the error is about target
// and options, never about the network. Close the client to end its connections.
func Dial(target string, o Options) (*Client, error) {
	if o.Keepalive > 0 && o.Keepalive < minKeepalive {
		return nil, fmt.Errorf("qosproxy: a Keepalive of %s is below the %s that a proxy tolerates", o.Keepalive, minKeepalive)
	}
	if o.Token != nil && o.TLS == nil && !o.PlaintextToken && !isSocket(target) {
		return nil, errors.New("qosproxy: a token would go unencrypted to " + target + "; set TLS, or PlaintextToken where the network encrypts")
	}
	if o.Retries == 0 {
		o.Retries = DefaultRetries
	}
	c := &Client{options: o, budget: newBudget()}
	conn, err := grpc.NewClient(target, c.dialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("qosproxy: %w", err)
	}
	c.conn, c.api = conn, qosproxyv1.NewQosProxyClient(conn)
	return c, nil
}

func isSocket(target string) bool {
	return strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:")
}

func (c *Client) dialOptions() []grpc.DialOption {
	o := c.options
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	if o.MaxAnswerBytes <= 0 {
		o.MaxAnswerBytes = DefaultMaxAnswerBytes
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxAnswerBytes), grpc.MaxCallSendMsgSize(o.MaxAnswerBytes)),
		grpc.WithChainUnaryInterceptor(c.retryUnary),
		grpc.WithChainStreamInterceptor(c.authorizeStream),
		grpc.WithDisableRetry(), // Those of gRPC do not know which failures a retry can help.
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
	}
	if o.Keepalive == 0 {
		o.Keepalive = DefaultKeepalive
	}
	if o.Keepalive > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: o.Keepalive, Timeout: pingTimeout, PermitWithoutStream: true}))
	}
	return append(options, o.GRPC...)
}

// Close ends the connections; calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// API returns the generated client over the same connections, for calls that this
// package has no method for. Its unary calls have the deadlines and retries of
// Options; its errors are gRPC's.
func (c *Client) API() qosproxyv1.QosProxyClient { return c.api }

// authorize returns the context of a call that brings the credentials. gRPC's own
// way would send them with its health checks as well, which are open to everybody,
// and a token that cannot be read would then look like a proxy that is not ready.
func (c *Client) authorize(ctx context.Context) (context.Context, error) {
	if c.options.SocketName != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "qosproxy-client", c.options.SocketName)
	}
	if c.options.Token == nil {
		return ctx, nil
	}
	token, err := c.options.Token()
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "the token of the client: %v", err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), nil
}

// authorizeStream brings the credentials of a stream.
func (c *Client) authorizeStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, err := c.authorize(ctx)
	if err != nil {
		return nil, err
	}
	return open(ctx, desc, conn, method, o...)
}
