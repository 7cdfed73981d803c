package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
)

// authority signs certificates.
type authority struct {
	t      *testing.T
	leaf   *x509.Certificate
	secret *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.secret, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.secret.PublicKey, a.secret)
	require.NoError(t, err)
	a.leaf, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

// sign returns a certificate for names; those with a scheme become URIs.
func (a *authority) sign(names ...string) tls.Certificate {
	a.t.Helper()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if strings.Contains(name, "://") {
			u, err := url.Parse(name)
			require.NoError(a.t, err)
			template.URIs = append(template.URIs, u)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, a.leaf, &secret.PublicKey, a.secret)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: secret}
}

// pool returns a pool that trusts only this authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.leaf)
	return pool
}

// files writes a certificate, its key and the authority to the files of a listener.
func (a *authority) files(pair tls.Certificate) TLS {
	a.t.Helper()
	dir := a.t.TempDir()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(a.t, err)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return TLS{
		CertFile:     write("cert.pem", "CERTIFICATE", pair.Certificate[0]),
		KeyFile:      write("key.pem", "PRIVATE KEY", pkcs8),
		ClientCAFile: write("ca.pem", "CERTIFICATE", a.leaf.Raw),
	}
}

// known returns a registry with a client for each way to be identified.
func known(t *testing.T) *identity.Registry {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("0123456789abcdef"), 0o600))
	r := identity.NewRegistry(nil, nil)
	may := identity.NewAccess([]identity.Grant{{Keyspace: "ks", Table: "products", Columns: []string{"name"}}})
	require.NoError(t, r.Replace([]identity.Member{
		{Client: identity.Client{Name: "by-spiffe", Access: may}, SPIFFE: []string{"spiffe://example.org/checkout"}},
		{Client: identity.Client{Name: "by-dns", Access: may}, DNSNames: []string{"search.example.org"}},
		{Client: identity.Client{Name: "by-token", Access: may}, TokenFile: file},
		{Client: identity.Client{Name: "by-header", Access: may}, SocketHeader: "sidecar"},
	}))
	return r
}

// visitor calls both listeners of a server over real connections, and returns as
// which client each identified it, or the code of the refusal.
type visitor struct {
	s    *Server
	seen chan string
	tls  *tls.Config
}

func visit(t *testing.T, cfg Config) *visitor {
	t.Helper()
	v := &visitor{seen: make(chan string, 1)}
	look := &fake{tables: []*lookup.Table{products(t)}, get: func(ctx context.Context, _ *lookup.Request) (*lookup.Response, error) {
		v.seen <- identity.FromContext(ctx).Name
		return respond(absent)(ctx, nil)
	}}
	v.s = start(t, cfg, Deps{Lookup: look, Clients: known(t)})
	return v
}

// who returns the client that the lookup saw, or the code of the refusal.
func (v *visitor) who(code string) string {
	select {
	case name := <-v.seen:
		return name
	default:
		return code
	}
}

func (v *visitor) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	transport := insecure.NewCredentials()
	if v.tls != nil {
		transport = credentials.NewTLS(v.tls)
	}
	addr := v.s.Addr("grpc")
	target := addr.String()
	if addr.Network() == "unix" {
		target = "unix://" + target
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (v *visitor) grpc(t *testing.T, header ...string) string {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), header...)
	_, err := qosproxyv1.NewQosProxyClient(v.dial(t)).BatchGet(ctx, &qosproxyv1.BatchGetRequest{
		Keyspace: "ks", Table: "products", Keys: []*qosproxyv1.Key{key(text("k"))}})
	if err != nil {
		return v.who(rpcProblem(err).code)
	}
	return v.who("")
}

func (v *visitor) http(t *testing.T, header ...string) string {
	t.Helper()
	addr := v.s.Addr("http")
	transport := &http.Transport{TLSClientConfig: v.tls, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, addr.Network(), addr.String())
	}}
	defer transport.CloseIdleConnections()
	scheme := "http"
	if v.tls != nil {
		scheme = "https"
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://proxy.test/v1/ks/products/k", nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "no connection"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusUnauthorized {
		return v.who(httpProblem(t, body).code)
	}
	return v.who(resp.Status)
}

const unauthenticated = "UNAUTHENTICATED"

func TestAClientIsKnownByItsCertificate(t *testing.T) {
	trusted, foreign := newAuthority(t, "trusted"), newAuthority(t, "foreign")
	listener := Listener{Address: anyPort, TLS: trusted.files(trusted.sign("proxy.test"))}
	v := visit(t, Config{GRPC: listener, HTTP: listener})
	for what, c := range map[string]struct {
		certificate tls.Certificate
		header      []string
		want        string
	}{
		"SPIFFE ID":                  {trusted.sign("spiffe://example.org/checkout"), nil, "by-spiffe"},
		"SPIFFE ID below it":         {trusted.sign("spiffe://example.org/checkout/canary"), nil, unauthenticated},
		"DNS name":                   {trusted.sign("x.example.org", "search.example.org"), nil, "by-dns"},
		"wildcard":                   {trusted.sign("*.example.org"), nil, unauthenticated},
		"both, of two clients":       {trusted.sign("spiffe://example.org/checkout", "search.example.org"), nil, unauthenticated},
		"nobody":                     {trusted.sign("nobody.example.org"), nil, unauthenticated},
		"nobody with a token":        {trusted.sign("nobody.example.org"), []string{"authorization", "Bearer 0123456789abcdef"}, "by-token"},
		"a client and a wrong token": {trusted.sign("search.example.org"), []string{"authorization", "Bearer wrong"}, unauthenticated},
		"a client and another":       {trusted.sign("search.example.org"), []string{"authorization", "Bearer 0123456789abcdef"}, unauthenticated},
		"a client and a header":      {trusted.sign("search.example.org"), []string{"qosproxy-client", "sidecar"}, unauthenticated},
	} {
		t.Run(what, func(t *testing.T) {
			v.tls = &tls.Config{RootCAs: trusted.pool(), ServerName: "proxy.test", Certificates: []tls.Certificate{c.certificate}}
			assert.Equal(t, c.want, v.grpc(t, c.header...), "gRPC")
			assert.Equal(t, c.want, v.http(t, c.header...), "HTTP")
		})
	}
	t.Run("a certificate of a foreign authority", func(t *testing.T) {
		v.tls = &tls.Config{RootCAs: trusted.pool(), ServerName: "proxy.test", Certificates: []tls.Certificate{foreign.sign("search.example.org")}}
		assert.Equal(t, "UNAVAILABLE", v.grpc(t))
		assert.Equal(t, "no connection", v.http(t))
	})
}

// TestACertificateThatWasNotVerifiedProvesNothing has listeners that ask for a
// certificate and do not verify it.
func TestACertificateThatWasNotVerifiedProvesNothing(t *testing.T) {
	trusted, foreign := newAuthority(t, "trusted"), newAuthority(t, "foreign")
	v := visit(t, Config{})
	for name, serve := range map[string]func(net.Listener) error{"grpc": v.s.grpc.Serve, "http": v.s.http.Serve} {
		l, err := tls.Listen("tcp", anyPort, &tls.Config{
			Certificates: []tls.Certificate{trusted.sign("proxy.test")}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2", "http/1.1"},
		})
		require.NoError(t, err)
		v.s.addrs[name] = l.Addr()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = serve(l)
		}()
		t.Cleanup(func() {
			_ = l.Close()
			<-done
		})
	}
	for _, by := range []*authority{trusted, foreign} {
		v.tls = &tls.Config{RootCAs: trusted.pool(), ServerName: "proxy.test", Certificates: []tls.Certificate{by.sign("search.example.org")}}
		assert.Equal(t, unauthenticated, v.grpc(t))
		assert.Equal(t, unauthenticated, v.http(t))
	}
}

func TestTheHeaderIsTrustedOnAUnixSocketOnly(t *testing.T) {
	dir := t.TempDir()
	socket := visit(t, Config{GRPC: Listener{Address: "unix://" + dir + "/g"}, HTTP: Listener{Address: "unix://" + dir + "/h"}})
	network := visit(t, Config{GRPC: Listener{Address: anyPort}, HTTP: Listener{Address: anyPort}})
	token := []string{"authorization", "Bearer 0123456789abcdef"}
	for i, c := range []struct {
		v      *visitor
		header []string
		want   string
	}{
		{socket, nil, unauthenticated},
		{socket, []string{"qosproxy-client", "sidecar"}, "by-header"},
		{socket, []string{"qosproxy-client", "by-header"}, unauthenticated},
		{socket, []string{"qosproxy-client", "sidecar", "qosproxy-client", "sidecar"}, unauthenticated},
		{socket, token, "by-token"},
		{socket, append([]string{"qosproxy-client", "sidecar"}, token...), unauthenticated},
		{network, nil, unauthenticated},
		{network, []string{"qosproxy-client", "sidecar"}, unauthenticated},
		{network, []string{"qosproxy-client", "sidecar", "x-forwarded-for", "@"}, unauthenticated},
		{network, token, "by-token"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			assert.Equal(t, c.want, c.v.grpc(t, c.header...), "gRPC")
			assert.Equal(t, c.want, c.v.http(t, c.header...), "HTTP")
		})
	}
}

// reflected returns a stream of reflection that has answered once.
func reflected(t *testing.T, conn *grpc.ClientConn) reflectionpb.ServerReflection_ServerReflectionInfoClient {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	_, err = stream.Recv()
	require.NoError(t, err)
	return stream
}

func TestHealthAndReflectionAreOpen(t *testing.T) {
	v := visit(t, Config{GRPC: Listener{Address: anyPort}})
	conn := v.dial(t)
	health := healthpb.NewHealthClient(conn)
	answer, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, answer.GetStatus())
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)

	require.NoError(t, reflected(t, conn).CloseSend())

	// A service on no list is closed.
	err = conn.Invoke(t.Context(), "/grpc.channelz.v1.Channelz/GetServers", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
	assert.Error(t, err)
	_, err = qosproxyv1.NewQosProxyClient(conn).ListTables(t.Context(), &qosproxyv1.ListTablesRequest{})
	assert.Equal(t, unauthenticated, rpcProblem(err).code)
}

// TestClientsAreExchangedUnderConnections keeps one connection while its client is
// removed and added again.
func TestClientsAreExchangedUnderConnections(t *testing.T) {
	v := visit(t, Config{GRPC: Listener{Address: "unix://" + t.TempDir() + "/g"}})
	rpc := qosproxyv1.NewQosProxyClient(v.dial(t))
	ctx := metadata.AppendToOutgoingContext(t.Context(), identity.SocketHeader, "sidecar")
	list := func() string {
		tables, err := rpc.ListTables(ctx, &qosproxyv1.ListTablesRequest{})
		if err != nil {
			return rpcProblem(err).code
		}
		return strconv.Itoa(len(tables.GetTables()))
	}
	assert.Equal(t, "1", list())
	replace := func(m identity.Member) { require.NoError(t, v.s.deps.Clients.Replace([]identity.Member{m})) }
	replace(identity.Member{Client: identity.Client{Name: "other"}, SocketHeader: "other"})
	assert.Equal(t, unauthenticated, list())
	replace(identity.Member{Client: identity.Client{Name: "by-header"}, SocketHeader: "sidecar"})
	assert.Equal(t, "0", list())
}
