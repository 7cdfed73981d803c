package cassandra

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/secret"
)

// issue returns a self-signed certificate for a name.
func issue(t *testing.T, name string, ends time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: ends, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func pool(c tls.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c.Leaf)
	return p
}

// TestNewConnectionsVerifyWithTheAccessOfTheMoment connects to a node whose
// certificate changes, with an Access that changes.
func TestNewConnectionsVerifyWithTheAccessOfTheMoment(t *testing.T) {
	tomorrow := time.Now().Add(24 * time.Hour)
	first, second, expired := issue(t, "node.test", tomorrow), issue(t, "node.test", tomorrow), issue(t, "node.test", time.Now().Add(-time.Hour))
	clientA, clientB := issue(t, "client-a", tomorrow), issue(t, "client-b", tomorrow)
	var server atomic.Pointer[tls.Certificate]
	var access atomic.Pointer[Access]
	shown := make(chan string, 1)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return server.Load(), nil },
	})
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			secured := c.(*tls.Conn)
			if secured.Handshake() == nil {
				shown <- secured.ConnectionState().PeerCertificates[0].Subject.CommonName
			}
			_ = c.Close()
		}
	}()
	cfg := quiet(l.Addr().String())
	cfg.Access = func() Access { return *access.Load() }
	d := driverConfig(cfg)
	at := l.Addr().(*net.TCPAddr)
	host, err := gocql.NewHostInfoFromAddrPort(at.IP, at.Port)
	require.NoError(t, err)
	try := func(node tls.Certificate, config *tls.Config) error {
		server.Store(&node)
		access.Store(&Access{TLS: config})
		dialed, err := d.HostDialer.DialHost(t.Context(), host)
		if err == nil {
			assert.IsType(t, &bufferedConn{}, dialed.Conn)
			_ = dialed.Conn.Close()
		}
		return err
	}
	config := func(trusted, client tls.Certificate, name string) *tls.Config {
		return &tls.Config{RootCAs: pool(trusted), ServerName: name, Certificates: []tls.Certificate{client}, MaxVersion: tls.VersionTLS12}
	}
	require.NoError(t, try(first, config(first, clientA, "node.test")))
	assert.Equal(t, "client-a", <-shown)
	var authority x509.UnknownAuthorityError
	require.ErrorAs(t, try(second, config(first, clientA, "node.test")), &authority, "the node has changed before the proxy")
	require.NoError(t, try(second, config(second, clientB, "node.test")), "new connections use what is new")
	assert.Equal(t, "client-b", <-shown)

	var name x509.HostnameError
	require.ErrorAs(t, try(first, config(first, clientA, "other.test")), &name)
	require.ErrorAs(t, try(first, config(first, clientA, "")), &name, "without a name it is the address")
	var invalid x509.CertificateInvalidError
	require.ErrorAs(t, try(expired, config(expired, clientA, "node.test")), &invalid)
	careless := config(first, clientA, "node.test")
	careless.InsecureSkipVerify = true
	require.ErrorAs(t, try(second, careless), &authority)
}

func TestNewConnectionsUseThePasswordOfTheMoment(t *testing.T) {
	access := Access{Username: "u", Password: secret.New("one")}
	cfg := quiet("127.0.0.1")
	cfg.Access = func() Access { return access }
	d := driverConfig(cfg)
	says := func() string {
		a, err := d.AuthProvider(nil)
		require.NoError(t, err)
		answer, _, err := a.Challenge([]byte(authenticators[0]))
		require.NoError(t, err)
		return string(answer)
	}
	assert.Equal(t, "\x00u\x00one", says())
	access.Password = secret.New("two")
	assert.Equal(t, "\x00u\x00two", says())
	access.Username = ""
	a, err := d.AuthProvider(nil)
	require.NoError(t, err)
	assert.Nil(t, a)
}
