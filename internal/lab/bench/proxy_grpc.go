package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // Enables health checks, which leave out proxies that are not ready.
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

const (
	// maxAnswer is the largest answer accepted, in bytes.
	maxAnswer = 256 << 20
	// streamWindow and connWindow are HTTP/2 flow-control windows in bytes, as in the client in
	// api/qosproxy.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// grpcTarget asks a proxy over gRPC.
type grpcTarget struct {
	data     *Dataset
	conn     *grpc.ClientConn
	client   qosproxyv1.QosProxyClient
	encoding qosproxyv1.Encoding
	explain  bool
}

// newGRPC returns a target for the gRPC listeners in o.GRPC. It connects when first used.
func (o *Open) newGRPC(tls credentials.TransportCredentials, encoding qosproxyv1.Encoding) (*grpcTarget, error) {
	if tls == nil {
		tls = insecure.NewCredentials()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(tls), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
	}
	if o.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	address := o.GRPC
	if several := strings.Split(o.GRPC, ","); len(several) > 1 {
		fixed := manual.NewBuilderWithScheme("proxies")
		state := resolver.State{}
		for _, a := range several {
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: strings.TrimSpace(a)}}})
		}
		fixed.InitialState(state)
		// Reconnect to a restarted proxy within a second.
		quick := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
		options = append(options, grpc.WithResolvers(fixed), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
		address = "proxies:///"
	}
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return nil, err
	}
	return &grpcTarget{o.Data, conn, qosproxyv1.NewQosProxyClient(conn), encoding, o.Explain}, nil
}

// bearer is a bearer token, sent with every call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": b.header()}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. It returns false because a
// measured proxy may have no TLS.
func (bearer) RequireTransportSecurity() bool { return false }

func (b bearer) header() string { return "Bearer " + string(b) }

// Close implements Target.
func (t *grpcTarget) Close() { t.conn.Close() }

// get makes a lookup. Without an error the response has exactly one result for each key.
func (t *grpcTarget) get(ctx context.Context, l *Lookup) (*qosproxyv1.BatchGetResponse, error) {
	req := &qosproxyv1.BatchGetRequest{
		Keyspace: t.data.Profile.Keyspace, Table: t.data.Profile.Table, Encoding: t.encoding,
		Columns: l.kind.names, LimitPerKey: int32(l.kind.Limit), Explain: t.explain, Keys: make([]*qosproxyv1.Key, len(l.Keys)),
	}
	for i, k := range l.Keys {
		req.Keys[i] = t.data.protoKey(k, l.row)
	}
	resp, err := t.client.BatchGet(ctx, req)
	if err != nil {
		return nil, err
	}
	if n := len(resp.GetResults()); n != len(l.Keys) {
		return nil, fmt.Errorf("%d results for %d keys", n, len(l.Keys))
	}
	return resp, nil
}

// Do implements Target.
func (t *grpcTarget) Do(ctx context.Context, l *Lookup) Outcome {
	resp, err := t.get(ctx, l)
	if err != nil {
		return Outcome{Failed: len(l.Keys), Err: err}
	}
	stats := resp.GetStats()
	o := Outcome{SubQueries: int(stats.GetSubQueries()), Hedges: int(stats.GetHedges()), Failovers: int(stats.GetFailovers())}
	for i, r := range resp.GetResults() {
		if !answeredStatus(r.GetStatus()) {
			o.Failed++
			o.Err = fmt.Errorf("%s: %s%s", r.GetStatus(), r.GetError(), attemptsOf(resp, i))
			continue
		}
		rows := r.GetRows()
		t.data.verify(&o, l, i, len(rows), func(row, c int, cell []byte) bool {
			values := rows[row].GetValues()
			return c < len(values) && t.data.columns[l.kind.columns[c]].equalProto(values[c], cell)
		})
	}
	return o
}

// attemptsOf lists the attempts for a key of an explained answer, one a line: kind, number of keys,
// host, start and end in milliseconds, outcome, error, and why it was not hedged.
func attemptsOf(resp *qosproxyv1.BatchGetResponse, key int) string {
	var b strings.Builder
	for _, a := range resp.GetExplanation().GetAttempts() {
		if !slices.Contains(a.GetKeys(), int32(key)) {
			continue
		}
		kind, outcome := strings.TrimPrefix(a.GetKind().String(), "ATTEMPT_KIND_"), strings.TrimPrefix(a.GetOutcome().String(), "ATTEMPT_OUTCOME_")
		fmt.Fprintf(&b, "\n%s of %d keys to %s from %.0f to %.0f: %s", kind, len(a.GetKeys()), a.GetHost(),
			float64(a.GetStart().AsDuration().Microseconds())/1e3, float64(a.GetEnd().AsDuration().Microseconds())/1e3, outcome)
		for _, why := range []string{a.GetError(), a.GetNotHedged()} {
			if why != "" {
				fmt.Fprintf(&b, " (%s)", why)
			}
		}
	}
	return b.String()
}

// answeredStatus reports whether a replica has answered the key.
func answeredStatus(s qosproxyv1.KeyStatus) bool {
	return s == qosproxyv1.KeyStatus_KEY_STATUS_FOUND || s == qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND
}
