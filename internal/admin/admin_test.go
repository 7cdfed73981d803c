package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

func TestAdminPages(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "qosproxy_test"}, func() float64 { return 7 }))
	level := new(slog.LevelVar)
	h := New(Config{Version: "1.2.3", Pprof: true}, Deps{
		Lookup: &fake{tables: []*lookup.Table{products(t)}, ring: twoHosts(t)}, NotReady: ready, Gatherer: reg, LogLevel: level,
		Hosts: func() any { return map[string]string{"10.0.0.1:9042": "up"} }, SLA: func() any { return []int{95} },
		Admission: func() any { return map[string]int{"limit_keys": 4200} },
	})
	for name, c := range map[string]struct {
		method, target, accept string
		status                 int
		has                    []string
	}{
		"metrics":          {"GET", "/metrics", "", 200, []string{"qosproxy_test 7"}},
		"OpenMetrics":      {"GET", "/metrics", "application/openmetrics-text", 200, []string{"qosproxy_test 7.0", "# EOF"}},
		"status":           {"GET", "/status", "", 200, []string{`"version": "1.2.3"`, `"ready": true`, `"ks.products"`, `"10.0.0.1:9042": "up"`, `"hosts": 2`, "95", `"limit_keys": 4200`}},
		"ring":             {"GET", "/ring", "", 200, []string{`"10.0.0.1:9042": 0.5`, `"problem": "`}},
		"ring as text":     {"GET", "/ring?format=text", "", 200, []string{"shop (", "10.0.0.2:9042  dc1  r2    1       50.0%"}},
		"ring by Accept":   {"GET", "/ring", "text/plain", 200, []string{"HOST"}},
		"pprof":            {"GET", "/debug/pprof/goroutine?debug=1", "", 200, []string{"goroutine profile"}},
		"a level unknown":  {"PUT", "/log/level?level=loud", "", 400, []string{`"field":"level"`}},
		"no such page":     {"GET", "/nope", "", 404, nil},
		"a write to a get": {"POST", "/status", "", 405, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(h, c.method, c.target, "Accept", c.accept)
			assert.Equal(t, c.status, w.Code)
			for _, part := range c.has {
				assert.Contains(t, w.Body.String(), part)
			}
		})
	}
	assert.Equal(t, "info\n", do(h, "GET", "/log/level").Body.String())
	assert.Equal(t, "debug\n", do(h, "PUT", "/log/level?level=debug").Body.String())
	assert.Equal(t, slog.LevelDebug, level.Level())
}

func TestAdminWithoutACluster(t *testing.T) {
	h := New(Config{}, Deps{Lookup: &fake{}, NotReady: func() string { return "no contact point answers" }})
	w := do(h, "GET", "/ring")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.JSONEq(t, `{"error":{"code":"UNAVAILABLE","message":"no contact point answers"}}`, w.Body.String())
	var page map[string]any
	require.NoError(t, json.Unmarshal(do(h, "GET", "/status").Body.Bytes(), &page))
	assert.Equal(t, false, page["ready"])
	assert.Nil(t, page["ring"])
	assert.NotContains(t, page, "admission")
	assert.Equal(t, http.StatusNotFound, do(h, "GET", "/debug/pprof/").Code, "off unless it is asked for")
}
