package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// prometheus is a real Prometheus that scrapes a proxy every second.
type prometheus struct{ url string }

// startPrometheus runs Prometheus until the test ends, with the rules of deploy/prometheus, in
// which alerts wait for seconds instead of minutes. It skips the test where Prometheus is not
// installed.
func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (Debian: apt-get install prometheus)")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, name := range []string{"recording.yaml", "alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "prometheus", name))
		require.NoError(t, err)
		quick := regexp.MustCompile(`for: \d+m`).ReplaceAllString(string(text), "for: 3s")
		write(name, strings.ReplaceAll(quick, "interval: 30s", "interval: 1s"))
	}
	write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [recording.yaml, alerts.yaml]
scrape_configs: [{job_name: qosproxy, static_configs: [{targets: ["%s"]}]}]
`, target))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	cmd := exec.Command(binary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	out, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(out.Name())
			t.Logf("log of Prometheus:\n%s", text)
		}
	})
	p := &prometheus{url: "http://" + addr}
	require.Eventually(t, func() bool { return len(p.query(t, "up == 1")) == 1 }, patience, 200*time.Millisecond, "the proxy is scraped")
	return p
}

// query returns the values of an instant query; none while Prometheus does not answer.
func (p *prometheus) query(t *testing.T, expr string) []float64 {
	t.Helper()
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusServiceUnavailable {
		return nil
	}
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", expr, body)
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	require.NoError(t, json.Unmarshal(body, &answer), "%s: %s", expr, body)
	var values []float64
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		require.NoError(t, err)
		values = append(values, v)
	}
	return values
}

// testPrometheus runs the dashboard's queries on a real Prometheus, and checks that a frozen node
// fires its alert.
func testPrometheus(t *testing.T, p *process, d *dataset, victim *devcluster.Node) {
	prom := startPrometheus(t, strings.TrimPrefix(p.admin, "http://"))
	run(t, p, d, 4*time.Second)
	for _, q := range dashboardQueries(t) {
		var values []float64
		known := func() bool {
			values = prom.query(t, q)
			for _, v := range values {
				if !math.IsNaN(v) {
					return true
				}
			}
			return false
		}
		assert.Eventually(t, known, patience, 500*time.Millisecond, "a panel without data: %s: %v", q, values)
	}
	const out = `ALERTS{alertname="QosproxyHostOut",alertstate="firing"}`
	assert.Empty(t, prom.query(t, out), "while all nodes are healthy")
	require.NoError(t, victim.Pause())
	fired := assert.Eventually(t, func() bool {
		run(t, p, d, time.Second)
		return len(prom.query(t, out)) == 1
	}, patience, 100*time.Millisecond, "a frozen node fires the alert")
	require.NoError(t, victim.Resume())
	if fired {
		assert.Eventually(t, func() bool {
			run(t, p, d, time.Second)
			return len(prom.query(t, out)) == 0
		}, patience, 100*time.Millisecond, "and it resolves when the node is healthy")
	}
}

// dashboardQueries are the queries of every panel of the dashboard, with its
// variables filled in.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "grafana", "qosproxy.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	fill := strings.NewReplacer("$job", ".*", "$table", ".*", "$__rate_interval", "1m")
	var queries []string
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" {
			assert.NotEmpty(t, panel.Targets, panel.Title)
		}
		for _, target := range panel.Targets {
			queries = append(queries, fill.Replace(target.Expr))
		}
	}
	require.NotEmpty(t, queries)
	return queries
}
