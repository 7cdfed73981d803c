package app_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/config"
)

// TestClientsOfTheConfigurationAreThoseOfTheListeners starts a proxy whose cluster is
// down: it tells a known client that it is not ready.
func TestClientsOfTheConfigurationAreThoseOfTheListeners(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("0123456789abcdef"), 0o600))
	cfg, err := config.Parse([]byte(`
cassandra: {contact_points: ["127.0.0.1:1"]}
listen: {grpc: "", http: "127.0.0.1:0", admin: "127.0.0.1:0"}
tables: [{name: shop.products}, {name: shop.orders}]
clients: [{name: checkout, token_file: `+tokens+`, tables: [{name: shop.products}]}]
`), "f")
	require.NoError(t, err)
	a := app.New(cfg, app.Options{})
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })

	get := func(listener, path, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr(listener)+path, nil)
		require.NoError(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status := func(path, token string) int {
		status, _ := get("http", path, token)
		return status
	}
	assert.Equal(t, http.StatusUnauthorized, status("/v1/shop/products/k", ""))
	assert.Equal(t, http.StatusServiceUnavailable, status("/v1/shop/products/k", "0123456789abcdef"))
	assert.Equal(t, http.StatusForbidden, status("/v1/shop/orders/k", "0123456789abcdef"))
	_, metrics := get("admin", "/metrics", "")
	assert.Contains(t, metrics, "qosproxy_requests_refused_total{reason=\"missing\"} 1")
	assert.Contains(t, metrics, "qosproxy_requests_refused_total{reason=\"table\"} 1")
	_, live := get("admin", "/status/live", "")
	assert.Contains(t, live, `"clients":[{"name":"checkout",`)
	assert.Contains(t, live, `"message":"request refused"`, "warnings of the log are on the status page")
	_, inUse := get("admin", "/status/config", "")
	assert.Contains(t, inUse, tokens)
	assert.NotContains(t, live+inUse, "0123456789abcdef", "no secret is")

	require.NoError(t, os.WriteFile(tokens, []byte("fedcba9876543210"), 0o600))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, http.StatusServiceUnavailable, status("/v1/shop/products/k", "fedcba9876543210"))
	}, time.Minute, 100*time.Millisecond)
	assert.Equal(t, http.StatusUnauthorized, status("/v1/shop/products/k", "0123456789abcdef"))

	require.NoError(t, os.Remove(tokens))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, metrics := get("admin", "/metrics", "")
		assert.Contains(c, metrics, "qosproxy_token_files_broken 1")
	}, time.Minute, 100*time.Millisecond)
	assert.Equal(t, http.StatusServiceUnavailable, status("/v1/shop/products/k", "fedcba9876543210"))
}

func TestATokenFileThatCannotBeUsedStopsTheStart(t *testing.T) {
	cfg, err := config.Parse([]byte(`
cassandra: {contact_points: ["127.0.0.1:1"]}
listen: {grpc: "", http: "127.0.0.1:0", admin: ""}
tables: [{name: shop.products}]
clients: [{name: checkout, token_file: /none, tables: [{name: shop.products}]}]
`), "f")
	require.NoError(t, err)
	require.ErrorContains(t, app.New(cfg, app.Options{}).Start(t.Context()), "clients: token_file of client checkout: ")
}
