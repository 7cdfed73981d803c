package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
)

// adminAt serves the probes of a live proxy, ready or not, at a listener.
func adminAt(t *testing.T, ln net.Listener, ready bool) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("not ready: no ring\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s := httptest.NewUnstartedServer(mux)
	_ = s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
}

func TestHealthAsksTheAdminListener(t *testing.T) {
	for name, unix := range map[string]bool{"all addresses": false, "a unix socket": true} {
		for _, ready := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				network, address := "tcp", "0.0.0.0:0"
				if unix {
					network, address = "unix", filepath.Join(t.TempDir(), "admin.sock")
				}
				ln, err := net.Listen(network, address)
				require.NoError(t, err)
				adminAt(t, ln, ready)
				listen := "unix://" + address
				if !unix {
					listen = "0.0.0.0" + ln.Addr().String()[strings.LastIndex(ln.Addr().String(), ":"):]
				}
				file := filepath.Join(t.TempDir(), "q.yaml")
				require.NoError(t, os.WriteFile(file, []byte("listen: {admin: \""+listen+"\"}\n"), 0o600))

				out, err := execute(t, "health", "--live", "--config", file)
				require.NoError(t, err)
				assert.Equal(t, "ok\n", out)
				require.NoError(t, os.WriteFile(file, []byte("listen: {admin: \""+listen+"\", htttp: \"\"}\ndefaults: {timout: 5ms}\n"), 0o600))
				out, err = execute(t, "health", "--live", "--config", file)
				require.NoError(t, err, "what is refused at a reload does not end the proxy")
				assert.Equal(t, "ok\n", out)
				out, err = execute(t, "health", "--config", file)
				if ready {
					require.NoError(t, err)
					assert.Equal(t, "ok\n", out)
				} else {
					assert.ErrorContains(t, err, "503 Service Unavailable: not ready: no ring")
				}
			})
		}
	}
}

func TestHealthOfNoProxyIsAFailureAndNotWrongUsage(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Setenv("QOSPROXY_LISTEN_ADMIN", ln.Addr().String())
	require.NoError(t, ln.Close())
	_, err = execute(t, "health")
	require.ErrorContains(t, err, "ask the admin listener")
	var usage *command.UsageError
	assert.NotErrorAs(t, err, &usage)

	t.Setenv("QOSPROXY_LISTEN_ADMIN", "")
	_, err = execute(t, "health")
	require.ErrorAs(t, err, &usage)
	assert.ErrorContains(t, err, "listen.admin is off")
}

// TestHealthSpeaksTLSToItsOwnListener checks that health accepts a certificate for another
// name, and brings one if the listener requires client certificates.
func TestHealthSpeaksTLSToItsOwnListener(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	t.Cleanup(s.Close)
	client, url, err := adminClient(config.Listen{
		Admin: s.Listener.Addr().String(), TLS: config.ListenTLS{Admin: config.ServerTLS{CertFile: "some.pem"}},
	}, "", "")
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(url, "https://"), url)
	answer, err := probe(t.Context(), client, url+"/livez")
	require.NoError(t, err)
	assert.Equal(t, "ok", answer)
}

// TestHealthHasACertificateOfItsOwn has a listener that does not accept its own certificate as
// that of a client.
func TestHealthHasACertificateOfItsOwn(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	client, serving := certificate(t, "client"), certificate(t, "proxy")
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	require.True(t, s.TLS.ClientCAs.AppendCertsFromPEM(client.pem))
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Setenv("QOSPROXY_LISTEN_ADMIN", s.Listener.Addr().String())
	for key, file := range map[string]string{"CERT_FILE": serving.cert, "KEY_FILE": serving.key, "CLIENT_CA_FILE": client.cert} {
		t.Setenv("QOSPROXY_LISTEN_TLS_ADMIN_"+key, file)
	}
	_, err := execute(t, "health")
	require.ErrorContains(t, err, "set --cert and --key")
	out, err := execute(t, "health", "--cert", client.cert, "--key", client.key)
	require.NoError(t, err)
	assert.Equal(t, "ok\n", out)
	_, err = execute(t, "health", "--cert", client.cert)
	assert.ErrorContains(t, err, "--cert and --key go together")
}

// certified is a self-signed certificate in files.
type certified struct {
	pem       []byte
	cert, key string
}

func certificate(t *testing.T, name string) certified {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	c := certified{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	require.NoError(t, os.WriteFile(c.cert, c.pem, 0o600))
	require.NoError(t, os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return c
}

func TestLoopbackOfAListener(t *testing.T) {
	for host, want := range map[string]string{
		"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "10.0.0.7": "10.0.0.7", "localhost": "localhost",
	} {
		assert.Equal(t, want, loopback(host), host)
	}
}
