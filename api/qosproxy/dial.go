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

// The defaults of Options, used where a field is zero.
const (
	// DefaultRetries is the largest number of retries of a call.
	DefaultRetries = 2
	// DefaultKeepalive is how often an idle connection is pinged.
	DefaultKeepalive = 20 * time.Second
	// DefaultMaxAnswerBytes is the size of the largest answer that is accepted. The default
	// max_response_bytes of a table allows 4 MiB of cells; in rows of the smallest cells these
	// can take this many bytes on the wire.
	DefaultMaxAnswerBytes = 64 << 20
)

const (
	// patience bounds the wait for an answer to a call that has no deadline at all.
	patience = 10 * time.Second
	// pingTimeout is how long a ping may stay unanswered before the connection is considered
	// broken.
	pingTimeout = 5 * time.Second
	// minKeepalive is the shortest interval between pings that a proxy tolerates.
	minKeepalive = 10 * time.Second
	// streamWindow and connWindow are how many bytes a proxy may send ahead of the reader, per
	// call and per connection. They are fixed because gRPC would otherwise estimate them with a
	// ping after nearly every answer, which costs both ends a packet, and would send a window
	// update for each answer read.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// serviceConfig spreads calls over all addresses of the target, except those whose proxy reports
// by the health service that it is not ready or is shutting down.
const serviceConfig = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`

// Options configure a Client. The zero Options connect without TLS and send no credentials.
type Options struct {
	// TLS encrypts the connection; nil means no TLS. TLSFiles.Load makes one from PEM files.
	TLS *tls.Config
	// Token returns the bearer token of the client. It is called for every call; nil sends no
	// token. TokenFile reads one from a file. A token requires TLS, a unix socket or
	// PlaintextToken.
	Token func() (string, error)
	// PlaintextToken allows Token on a connection without TLS, for networks where something else
	// encrypts it, such as a service mesh.
	PlaintextToken bool
	// SocketName identifies the client to a proxy on a unix socket; empty sends no name.
	SocketName string
	// Timeout is the deadline of calls whose context has none. With 0 no deadline is sent, so the
	// timeout of the table applies, and the call fails after 10 s without an answer.
	Timeout time.Duration
	// Retries is the largest number of retries of a call that failed as a whole and before any
	// answer. A call is retried when the proxy could not be reached, or when the proxy says that
	// a retry may help and the pause that it asks for ends before the deadline. 0 means
	// DefaultRetries, a negative number means no retries.
	Retries int
	// RetryShed also retries lookups that were shed (RESOURCE_EXHAUSTED), after the pause that
	// the proxy asks for. It adds load to a proxy that is overloaded already: use it for callers
	// that can wait.
	RetryShed bool
	// Keepalive is how often an idle connection is pinged, at least 10 s. Pings detect a proxy
	// that vanished without closing the connection. 0 means DefaultKeepalive, a negative duration
	// disables pings.
	Keepalive time.Duration
	// MaxAnswerBytes is the size of the largest answer that is accepted; 0 means
	// DefaultMaxAnswerBytes.
	MaxAnswerBytes int
	// GRPC are further options of the connection, such as interceptors. They are applied last and
	// override the others.
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
// Calls go to the ready proxies of the target in turn. Addresses are resolved again whenever a
// connection ends. Proxies end connections after about half an hour, so that new ones get their
// share.
//
// Dial returns before it connects, so its error is about target and options, never about the
// network. Close the client to end its connections.
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
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxAnswerBytes)),
		grpc.WithChainUnaryInterceptor(c.retryUnary),
		grpc.WithChainStreamInterceptor(c.authorizeStream),
		grpc.WithDisableRetry(), // gRPC's retries do not know which failures a retry can help.
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

// Close ends the connections; calls that are in-flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// API returns the generated client over the same connections, for calls that this package has no
// method for. Its unary calls have the deadlines and retries of Options; its errors are gRPC
// status errors.
func (c *Client) API() qosproxyv1.QosProxyClient { return c.api }

// authorize returns the context of a call with the client's credentials added. gRPC's per-call
// credentials would be sent with its health checks as well. These need none, and a token that
// cannot be read would then look like a proxy that is not ready.
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

// authorizeStream adds the credentials of a stream.
func (c *Client) authorizeStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, err := c.authorize(ctx)
	if err != nil {
		return nil, err
	}
	return open(ctx, desc, conn, method, o...)
}
