package server

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// twoDatacenters has one host in dc0 and two in dc1, each with that many tokens.
// Keyspace shop is in dc1, others more keyspaces are in dc0.
func twoDatacenters(t testing.TB, tokens, others int) *ring.Ring {
	t.Helper()
	hosts := []ring.Host{{ID: "z", Addr: "10.0.0.9:9042", DC: "dc0", Rack: "r1"},
		{ID: "a", Addr: "10.0.1.1:9042", DC: "dc1", Rack: "r1"}, {ID: "b", Addr: "10.0.1.2:9042", DC: "dc1", Rack: "r2"}}
	step := math.MaxInt64 / int64(tokens*len(hosts)) * 2
	for i := range tokens {
		for h := range hosts {
			hosts[h].Tokens = append(hosts[h].Tokens, math.MinInt64+1+int64(i*len(hosts)+h)*step)
		}
	}
	keyspaces := map[string]ring.Replication{"shop": {Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc1": 2}}}
	for i := range others {
		keyspaces[fmt.Sprintf("other%02d", i)] = ring.Replication{Strategy: "NetworkTopologyStrategy", Factors: map[string]int{"dc0": 1}}
	}
	r, err := ring.New(ring.Topology{Hosts: hosts, Keyspaces: keyspaces, LocalDC: "dc1"})
	require.NoError(t, err)
	return r
}

func TestAClientSeesOfTheRingWhatItMayRead(t *testing.T) {
	server := New(Config{}, Deps{Lookup: &fake{ring: twoDatacenters(t, 2, 1)}})
	for name, c := range map[string]struct {
		access    *identity.Access
		hosts     []string
		keyspaces []string
		local     string
	}{
		"no limit":                 {nil, []string{"z", "a", "b"}, []string{"other00", "shop"}, "dc1"},
		"a table of one keyspace":  {identity.NewAccess([]identity.Grant{{Keyspace: "shop", Table: "t"}}), []string{"a", "b"}, []string{"shop"}, "dc1"},
		"a table of the other":     {identity.NewAccess([]identity.Grant{{Keyspace: "other00", Table: "t"}}), []string{"z"}, []string{"other00"}, "dc1"},
		"a keyspace that is not":   {identity.NewAccess([]identity.Grant{{Keyspace: "none", Table: "t"}}), nil, nil, ""},
		"a client without a table": {identity.NewAccess(nil), nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := identity.NewContext(t.Context(), &identity.Client{Name: "someone", Access: c.access})
			out, err := (&grpcService{server: server}).DescribeRing(ctx, &qosproxyv1.DescribeRingRequest{IncludeRanges: true})
			require.NoError(t, err)
			assert.Equal(t, c.local, out.GetLocalDatacenter())
			var hosts, keyspaces []string
			for _, h := range out.GetHosts() {
				hosts = append(hosts, h.GetId())
			}
			for _, k := range out.GetKeyspaces() {
				keyspaces = append(keyspaces, k.GetKeyspace())
				checkKeyspace(t, out, k)
			}
			assert.Equal(t, c.hosts, hosts)
			assert.Equal(t, c.keyspaces, keyspaces)
		})
	}
}

// checkKeyspace checks a keyspace against the hosts of the response.
func checkKeyspace(t *testing.T, out *qosproxyv1.DescribeRingResponse, k *qosproxyv1.KeyspaceRing) {
	t.Helper()
	dc, factor := "dc1", 2.0
	if k.GetKeyspace() != "shop" {
		dc, factor = "dc0", 1
	}
	require.Len(t, k.GetOwnership(), len(out.GetHosts()))
	sum := 0.0
	for i, share := range k.GetOwnership() {
		sum += share
		assert.Equal(t, out.GetHosts()[i].GetDatacenter() == dc, share > 0, "%s of %s", out.GetHosts()[i].GetId(), k.GetKeyspace())
	}
	assert.InDelta(t, factor, sum, 1e-9)
	require.Len(t, k.GetRanges(), 6)
	for _, r := range k.GetRanges() {
		require.Len(t, r.GetReplicas(), int(factor))
		for _, at := range r.GetReplicas() {
			assert.Equal(t, dc, out.GetHosts()[at].GetDatacenter())
		}
	}
}

func TestWhatAClientMayNotSeeOfTheRingIsNotComputed(t *testing.T) {
	const keyspaces = 20
	server := New(Config{}, Deps{Lookup: &fake{ring: twoDatacenters(t, 256, keyspaces)}})
	cost := func(access *identity.Access) float64 {
		ctx := identity.NewContext(t.Context(), &identity.Client{Name: "someone", Access: access})
		g := &grpcService{server: server}
		return testing.AllocsPerRun(3, func() {
			_, err := g.DescribeRing(ctx, &qosproxyv1.DescribeRingRequest{IncludeRanges: true})
			require.NoError(t, err)
		})
	}
	assert.Less(t, cost(identity.NewAccess(nil)), 50.0, "allocations of an answer that is empty")
	assert.Less(t, cost(nil), 200.0, "allocations of %d keyspaces, of which all but one have the same 768 ranges", keyspaces+1)
}

func TestOneRingIsDescribedAtATime(t *testing.T) {
	g := &grpcService{server: New(Config{}, Deps{Lookup: &fake{ring: twoHosts(t)}})}
	g.describing.Lock()
	_, err := g.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{})
	busy := status.Convert(err)
	require.Equal(t, codes.ResourceExhausted, busy.Code())
	var retry *errdetails.RetryInfo
	for _, d := range busy.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			retry = info
		}
	}
	require.NotNil(t, retry)
	assert.Positive(t, retry.GetRetryDelay().AsDuration())

	g.describing.Unlock()
	for range 2 {
		_, err = g.DescribeRing(t.Context(), &qosproxyv1.DescribeRingRequest{})
		require.NoError(t, err, "the lock is given back")
	}
}
