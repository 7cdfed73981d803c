package cassandra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sign returns a certificate signed by an authority: that of a server without names, valid now,
// unless change modifies it.
func sign(t *testing.T, by tls.Certificate, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, &key.PublicKey, by.PrivateKey)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: append([][]byte{der}, by.Certificate...), PrivateKey: key, Leaf: leaf}
}

// dns is a resolver that knows the names of an address and the address of a name.
type dns struct{ names, addresses map[string]string }

func (d dns) LookupAddr(_ context.Context, addr string) ([]string, error) {
	if name, ok := d.names[addr]; ok {
		return []string{name + "."}, nil
	}
	return nil, errors.New("no such address")
}

func (d dns) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addr, ok := d.addresses[host]; ok {
		return []netip.Addr{netip.MustParseAddr(addr)}, nil
	}
	return nil, fmt.Errorf("no such host: %s", host)
}

// TestACertificateIsOfItsNode does handshakes over loopback with a node at 127.0.0.1.
func TestACertificateIsOfItsNode(t *testing.T) {
	const at = "127.0.0.1"
	ca, other := issue(t, "ca", time.Now().Add(time.Hour)), issue(t, "ca", time.Now().Add(time.Hour))
	between := sign(t, ca, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	nameless := func(*x509.Certificate) {}
	name := func(c *x509.Certificate) { c.DNSNames = []string{"node.test"} }
	address := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP(at)} }
	expired := func(c *x509.Certificate) { address(c); c.NotAfter = time.Now().Add(-time.Hour) }
	client := func(c *x509.Certificate) {
		address(c)
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	both := dns{map[string]string{at: "node.test"}, map[string]string{"node.test": at}}
	hostname, authority, invalid := new(x509.HostnameError), new(x509.UnknownAuthorityError), new(x509.CertificateInvalidError)
	for says, test := range map[string]struct {
		by     tls.Certificate
		change func(*x509.Certificate)
		// serverName, any, points and dns configure the verification.
		serverName string
		any        bool
		points     []string
		dns        dns
		// refusal is a pointer to the expected error, nil when the certificate is accepted.
		refusal any
	}{
		"full: the address":                                     {by: ca, change: address},
		"full: the configured name":                             {by: ca, change: name, serverName: "node.test"},
		"full: another name than configured":                    {by: ca, change: name, serverName: "other.test", dns: both, refusal: hostname},
		"full: the address in place of a configured name":       {by: ca, change: address, serverName: "node.test", refusal: hostname},
		"full: the name that both lookups tell":                 {by: ca, change: name, dns: both},
		"full: a wildcard for it":                               {by: ca, change: func(c *x509.Certificate) { c.DNSNames = []string{"*.test"} }, dns: both},
		"full: a name that only the reverse lookup tells":       {by: ca, change: name, dns: dns{names: both.names}, refusal: hostname},
		"full: a name that resolves to another address":         {by: ca, change: name, dns: dns{both.names, map[string]string{"node.test": "10.0.0.1"}}, refusal: hostname},
		"full: a name that resolves to an address not its own":  {by: ca, change: name, dns: dns{map[string]string{at: "other.test"}, both.addresses}, refusal: hostname},
		"full: a name that resolves, of an address with none":   {by: ca, change: name, dns: dns{addresses: both.addresses}, refusal: hostname},
		"full: a contact point that resolves to the address":    {by: ca, change: name, points: []string{"node.test:9042"}, dns: dns{addresses: both.addresses}},
		"full: a contact point at another address":              {by: ca, change: name, points: []string{"node.test"}, dns: dns{addresses: map[string]string{"node.test": "10.0.0.1"}}, refusal: hostname},
		"full: another name than both lookups tell":             {by: ca, change: func(c *x509.Certificate) { c.DNSNames = []string{"evil.test"} }, dns: both, refusal: hostname},
		"full: another address":                                 {by: ca, change: func(c *x509.Certificate) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} }, dns: both, refusal: hostname},
		"full: no name":                                         {by: ca, change: nameless, dns: both, refusal: hostname},
		"full: another authority":                               {by: other, change: address, refusal: authority},
		"full: another authority, name configured":              {by: other, change: name, serverName: "node.test", refusal: authority},
		"full: expired":                                         {by: ca, change: expired, refusal: invalid},
		"full: of a client":                                     {by: ca, change: client, refusal: invalid},
		"ca: no name":                                           {by: ca, change: nameless, any: true},
		"full: by an authority between":                         {by: between, change: address},
		"ca: by an authority between":                           {by: between, change: nameless, any: true},
		"ca: another name":                                      {by: ca, change: name, any: true},
		"ca: another name than an access without a check names": {by: ca, change: name, any: true, serverName: "other.test"},
		"ca: another authority":                                 {by: other, change: nameless, any: true, refusal: authority},
		"ca: expired":                                           {by: ca, change: expired, any: true, refusal: invalid},
		"ca: of a client":                                       {by: ca, change: client, any: true, refusal: invalid},
	} {
		t.Run(says, func(t *testing.T) {
			certificate := sign(t, test.by, test.change)
			l, err := tls.Listen("tcp", at+":0", &tls.Config{Certificates: []tls.Certificate{certificate}})
			require.NoError(t, err)
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					_ = c.(*tls.Conn).Handshake()
					_ = c.Close()
				}
			}()
			cfg := quiet(l.Addr().String())
			cfg.ContactPoints = append(cfg.ContactPoints, test.points...)
			cfg.AnyName = test.any
			cfg.TLS = &tls.Config{RootCAs: pool(ca), ServerName: test.serverName, InsecureSkipVerify: true}
			dialer, ok := driverConfig(cfg).HostDialer.(*hostDialer)
			require.True(t, ok)
			dialer.resolver = test.dns
			host, err := gocql.NewHostInfoFromAddrPort(net.ParseIP(at), l.Addr().(*net.TCPAddr).Port)
			require.NoError(t, err)
			dialed, err := dialer.DialHost(t.Context(), host)
			if test.refusal == nil {
				require.NoError(t, err)
				assert.NoError(t, dialed.Conn.Close())
				return
			}
			require.ErrorAs(t, err, test.refusal)
		})
	}
}

// Anyone can have a public certificate for a name of their own, and let it resolve to the address
// of a node. With public authorities, they would only have to forge a reverse lookup.
func TestAReverseLookupDoesNotCountWithPublicAuthorities(t *testing.T) {
	ip := net.ParseIP("10.0.0.1")
	d := &hostDialer{resolver: dns{map[string]string{"10.0.0.1": "node.test"}, map[string]string{"node.test": "10.0.0.1"}}}
	leaf := &x509.Certificate{DNSNames: []string{"node.test"}}
	require.NoError(t, d.named(t.Context(), leaf, ip, true))
	require.Error(t, d.named(t.Context(), leaf, ip, false))
	d.points = []string{"node.test"}
	require.NoError(t, d.named(t.Context(), leaf, ip, false), "the operator has named it")
}

func TestAHandshakeEndsWithItsTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cfg := quiet(l.Addr().String())
	cfg.TLS, cfg.ConnectTimeout = &tls.Config{}, 20*time.Millisecond
	host, err := gocql.NewHostInfoFromAddrPort(net.ParseIP("127.0.0.1"), l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("waited for"))
	defer cancel()
	_, err = driverConfig(cfg).HostDialer.DialHost(ctx, host)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ctx.Err())
}
