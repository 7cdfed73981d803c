package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/standin"
)

// issue writes a self-signed certificate and its key to files.
func issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

// serveProducts runs a proxy with one table, and returns its address.
func serveProducts(t *testing.T, tls server.TLS, deps ...server.Deps) string {
	t.Helper()
	deps = append(deps, server.Deps{})
	s, stop, err := standin.Serve(t.Context(), server.Config{
		GRPC: server.Listener{Address: "127.0.0.1:0", TLS: tls}, Limits: server.Limits{HandshakeTimeout: time.Minute},
	}, deps[0],
		standin.Table{Name: "shop.products", Columns: []string{"id text", "name text"}, Rows: [][]string{{`"sku-1"`, `"Kettle"`}}})
	require.NoError(t, err)
	t.Cleanup(stop)
	return s.Addr("grpc").String()
}

func TestGetSpeaksTLS(t *testing.T) {
	cert, key := issue(t, "proxy.test")
	clientCert, clientKey := issue(t, "client.test")
	strangerCert, strangerKey := issue(t, "client.test")
	open := serveProducts(t, server.TLS{})
	secured := serveProducts(t, server.TLS{CertFile: cert, KeyFile: key})
	notReady := serveProducts(t, server.TLS{}, server.Deps{Ready: func() string { return "no node answers" }})
	mutual := serveProducts(t, server.TLS{CertFile: cert, KeyFile: key, ClientCAFile: clientCert})

	for name, c := range map[string]struct {
		flags []string
		fails string // empty if the command succeeds
	}{
		"without TLS":                      {[]string{"--addr", open}, ""},
		"with TLS":                         {[]string{"--addr", secured, "--ca", cert, "--server-name", "proxy.test"}, ""},
		"with mutual TLS":                  {[]string{"--addr", mutual, "--ca", cert, "--server-name", "proxy.test", "--cert", clientCert, "--key", clientKey}, ""},
		"no TLS to a listener that has it": {[]string{"--addr", secured}, "add --tls"},
		"TLS to a listener that has none":  {[]string{"--addr", open, "--tls"}, "it answers without TLS"},
		"an authority that is not known":   {[]string{"--addr", secured, "--tls", "--server-name", "proxy.test"}, "set --ca"},
		"another name":                     {[]string{"--addr", secured, "--ca", cert, "--server-name", "other.test"}, "set --server-name"},
		"an address that is not in it":     {[]string{"--addr", secured, "--ca", cert}, "set --server-name"},
		"mutual TLS without a certificate": {[]string{"--addr", mutual, "--ca", cert, "--server-name", "proxy.test"}, "set --cert and --key"},
		"mutual TLS with a strange one":    {[]string{"--addr", mutual, "--ca", cert, "--server-name", "proxy.test", "--cert", strangerCert, "--key", strangerKey}, "client_ca_file"},
		"a certificate without key":        {[]string{"--addr", mutual, "--cert", clientCert}, "--cert and --key go together"},
		"a file that is not there":         {[]string{"--addr", secured, "--ca", cert + ".none"}, cert + ".none"},
		"an authority file without one":    {[]string{"--addr", secured, "--ca", clientKey}, "holds no PEM certificate"},
		"a proxy that is not ready":        {[]string{"--addr", notReady}, "/readyz"},
		"nobody there":                     {[]string{"--addr", "127.0.0.1:1"}, "is qosproxy serve running"},
		"nobody there, with TLS":           {[]string{"--addr", "127.0.0.1:1", "--tls"}, "is qosproxy serve running"},
		"no socket there":                  {[]string{"--addr", "unix://" + filepath.Join(t.TempDir(), "none.sock")}, "is qosproxy serve running"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, append([]string{"get", "shop.products", "sku-1"}, c.flags...)...)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Contains(t, out, "Kettle")
		})
	}
}
