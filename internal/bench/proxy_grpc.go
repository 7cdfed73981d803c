package bench

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// maxAnswer is the largest answer taken, in bytes.
const maxAnswer = 256 << 20

// grpcTarget asks a proxy over gRPC.
type grpcTarget struct {
	data     *Dataset
	conn     *grpc.ClientConn
	client   qosproxyv1.QosProxyClient
	encoding qosproxyv1.Encoding
}

// newGRPC returns a target for the gRPC listener at an address. It connects when
// first used.
func newGRPC(d *Dataset, address string, tls credentials.TransportCredentials, encoding qosproxyv1.Encoding) (*grpcTarget, error) {
	if tls == nil {
		tls = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(tls), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	return &grpcTarget{d, conn, qosproxyv1.NewQosProxyClient(conn), encoding}, nil
}

// Close implements Target.
func (t *grpcTarget) Close() { t.conn.Close() }

// get makes a lookup; there are as many results as keys.
func (t *grpcTarget) get(ctx context.Context, l *Lookup) (*qosproxyv1.BatchGetResponse, error) {
	req := &qosproxyv1.BatchGetRequest{
		Keyspace: t.data.Profile.Keyspace, Table: t.data.Profile.Table, Encoding: t.encoding,
		Columns: l.kind.names, LimitPerKey: int32(l.kind.Limit), Keys: make([]*qosproxyv1.Key, len(l.Keys)),
	}
	for i, k := range l.Keys {
		req.Keys[i] = t.data.keys[k].proto
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
			o.Err = fmt.Errorf("%s: %s", r.GetStatus(), r.GetError())
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

// answeredStatus reports whether a replica has said what a key holds.
func answeredStatus(s qosproxyv1.KeyStatus) bool {
	return s == qosproxyv1.KeyStatus_KEY_STATUS_FOUND || s == qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND
}
