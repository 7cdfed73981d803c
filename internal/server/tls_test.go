package server

import (
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
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// issue writes a self-signed certificate with that name, which is its own
// authority, and returns it.
func issue(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), secret, 0o600))
	pair, err := tls.X509KeyPair(certificate, secret)
	require.NoError(t, err)
	return pair
}

func filesIn(dir string) TLS {
	return TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
}

// peerName does a handshake and returns the name on the server's certificate.
func peerName(t *testing.T, addr net.Addr) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr.String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestPrepareReplacesCertificates(t *testing.T) {
	dir := t.TempDir()
	first := issue(t, dir, "one.test")
	cfg := Config{HTTP: Listener{Address: anyPort, TLS: filesIn(dir)}, GRPC: Listener{Address: anyPort, TLS: filesIn(dir)}, Admin: Listener{Address: anyPort}}
	s := start(t, cfg, Deps{Lookup: &fake{}})
	assert.Equal(t, "one.test", peerName(t, s.Addr("http")))
	assert.Equal(t, map[string]time.Time{"grpc": first.Leaf.NotAfter, "http": first.Leaf.NotAfter}, s.CertificatesNotAfter())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("half written"), 0o600))
	_, err := s.Prepare(cfg)
	require.ErrorContains(t, err, "listen.tls.http: load cert_file "+filepath.Join(dir, "cert.pem"))
	require.ErrorContains(t, err, "listen.tls.grpc")
	assert.Equal(t, "one.test", peerName(t, s.Addr("http")), "a change that does not parse is not used")

	issue(t, dir, "two.test")
	commit, err := s.Prepare(cfg)
	require.NoError(t, err)
	assert.Equal(t, "one.test", peerName(t, s.Addr("http")), "prepared is not applied")
	commit()
	assert.Equal(t, "two.test", peerName(t, s.Addr("http")))
	assert.Equal(t, "two.test", peerName(t, s.Addr("grpc")))
}

func TestAnAuthorityThatIsGoneLetsNobodyInByATicket(t *testing.T) {
	servers, clients := t.TempDir(), t.TempDir()
	server, client := issue(t, servers, "proxy.test"), issue(t, clients, "client.test")
	files := filesIn(servers)
	files.ClientCAFile = filepath.Join(clients, "cert.pem")
	cfg := Config{HTTP: Listener{Address: anyPort, TLS: files}}
	s := start(t, cfg, Deps{Lookup: &fake{}})
	roots := x509.NewCertPool()
	roots.AddCert(server.Leaf)
	config := &tls.Config{RootCAs: roots, ServerName: "proxy.test", Certificates: []tls.Certificate{client}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	ask := func() error {
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("https://" + s.Addr("http").String() + "/v1/tables")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return err
	}
	require.NoError(t, ask())
	require.NoError(t, ask())
	issue(t, clients, "other.test")
	commit, err := s.Prepare(cfg)
	require.NoError(t, err)
	commit()
	require.Error(t, ask())
}

func TestMutualTLS(t *testing.T) {
	servers, clients := t.TempDir(), t.TempDir()
	server, client := issue(t, servers, "proxy.test"), issue(t, clients, "client.test")
	files := filesIn(servers)
	files.ClientCAFile = filepath.Join(clients, "cert.pem")
	s := start(t, Config{GRPC: Listener{Address: anyPort, TLS: files}, HTTP: Listener{Address: anyPort, TLS: files}}, Deps{Lookup: &fake{}})
	roots := x509.NewCertPool()
	roots.AddCert(server.Leaf)

	for name, c := range map[string]struct {
		certificates []tls.Certificate
		fails        bool
	}{
		"with a certificate":    {[]tls.Certificate{client}, false},
		"without a certificate": {nil, true},
		"with an unknown one":   {[]tls.Certificate{issue(t, t.TempDir(), "client.test")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{RootCAs: roots, ServerName: "proxy.test", Certificates: c.certificates}
			conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
			require.NoError(t, err)
			defer conn.Close()
			_, err = qosproxyv1.NewQosProxyClient(conn).ListTables(t.Context(), &qosproxyv1.ListTablesRequest{})
			assert.Equal(t, c.fails, err != nil, "%v", err)

			transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			resp, err := (&http.Client{Transport: transport}).Get("https://" + s.Addr("http").String() + "/v1/tables")
			assert.Equal(t, c.fails, err != nil, "%v", err)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				assert.Equal(t, 2, resp.ProtoMajor)
			}
		})
	}
}

func TestCertificatesThatCannotBeUsedStopTheStart(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "one.test")
	good := filesIn(dir)
	notPEM := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(notPEM, []byte("no"), 0o600))
	for name, c := range map[string]struct {
		files TLS
		says  string
	}{
		"no key":              {TLS{CertFile: good.CertFile}, "without key_file"},
		"a file that is gone": {TLS{CertFile: filepath.Join(dir, "gone"), KeyFile: good.KeyFile}, "load cert_file"},
		"a CA that is gone":   {TLS{CertFile: good.CertFile, KeyFile: good.KeyFile, ClientCAFile: filepath.Join(dir, "gone")}, "client_ca_file"},
		"a CA that is no PEM": {TLS{CertFile: good.CertFile, KeyFile: good.KeyFile, ClientCAFile: notPEM}, "holds no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{GRPC: Listener{Address: anyPort, TLS: c.files}}, Deps{Lookup: &fake{}})
			require.ErrorContains(t, s.Start(t.Context()), c.says)
		})
	}
}
