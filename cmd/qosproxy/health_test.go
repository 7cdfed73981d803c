package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
)

// adminAt serves probes at a listener: alive, and ready or not.
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

// TestHealthSpeaksTLSToItsOwnListener holds that a certificate for another name, and
// one that clients must bring, are no obstacle.
func TestHealthSpeaksTLSToItsOwnListener(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	t.Cleanup(s.Close)
	client, url, err := adminClient(config.Listen{
		Admin: s.Listener.Addr().String(), TLS: config.ListenTLS{Admin: config.ServerTLS{CertFile: "some.pem"}},
	})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(url, "https://"), url)
	answer, err := probe(t.Context(), client, url+"/livez")
	require.NoError(t, err)
	assert.Equal(t, "ok", answer)
}

func TestLoopbackOfAListener(t *testing.T) {
	for host, want := range map[string]string{
		"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "10.0.0.7": "10.0.0.7", "localhost": "localhost",
	} {
		assert.Equal(t, want, loopback(host), host)
	}
}
