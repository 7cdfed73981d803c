package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/status"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// steering is a name that would clear the screen and set the title of a terminal.
const steering = "shop.\x1b[2J\x1b]0;owned\x07\u202e\u009b31m"

// watched is a proxy at a time after its start.
func watched(at time.Duration) *status.Snapshot {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := int64(at / time.Millisecond)
	count := status.Count{Lookups: n, Keys: 50 * n, Failed: n / 100}
	slo := &status.SLO{Percentile: 95, TargetMS: 125, OperateAtMS: 62.5,
		Now: status.Window{Count: n, P50MS: 3.21, P95MS: 140.4, P99MS: 180, P999MS: 240}, FiveMinutes: status.Window{BurnRate: 2.5}}
	s := &status.Snapshot{
		Time: begin.Add(at), Started: begin, Version: "1.2.3", Ready: true, Total: count,
		Tables:  []status.Table{{Name: "shop.idle"}, {Name: steering, Count: count, SLO: slo, GivesUp: "hedges"}},
		Clients: []status.Client{{Name: steering, Count: count}},
		Errors:  []status.Error{{Last: begin, Count: 7, Message: "PARTIAL", Table: steering, Client: "checkout", Detail: "3 of 50 keys unanswered after 125ms"}},
		Config:  status.Config{Error: "q.yaml:1:2: no such key", NeedRestart: []string{"listen.grpc"}},
	}
	for i, state := range []status.HostState{"healthy", "ejected", "slow_start", "remote", "of a later version"} {
		s.Hosts = append(s.Hosts, status.Host{Address: fmt.Sprintf("10.0.0.%d:9042", i+1), DC: "dc1", Rack: "r1", Share: .2, State: state,
			InflightKeys: i, SubQueries: n, HedgedAway: n / 10, LatencyMS: 2.5,
			Statements: 2 * i, Waiting: 7 * i, StatementsSent: n, StatementKeys: 23 * n})
	}
	return s
}

func TestRatesAreOverTheLastSeconds(t *testing.T) {
	var h topHistory
	total := func(s *status.Snapshot) int64 { return s.Total.Lookups }
	h.add(watched(time.Second))
	assert.True(t, math.IsNaN(h.rate(total)), "one look is no rate")
	for i := 2; i <= 20; i++ {
		h.add(watched(time.Duration(i) * time.Second))
		assert.Equal(t, 1000.0, h.rate(total))
	}
	assert.Len(t, h.seen, 6)
	assert.Equal(t, 100.0, h.hostRate("10.0.0.1:9042", func(h *status.Host) int64 { return h.HedgedAway }))
	again := watched(time.Second)
	again.Started = again.Started.Add(time.Hour)
	h.add(again)
	assert.True(t, math.IsNaN(h.rate(total)), "another process counts anew")
	h.seen = []*status.Snapshot{watched(2 * time.Second), watched(time.Second)}
	assert.True(t, math.IsNaN(h.rate(total)))
}

func TestWhatTopShows(t *testing.T) {
	h := topHistory{seen: []*status.Snapshot{watched(time.Second), watched(2 * time.Second)}}
	text := strings.Join(h.draw(200, 0, false), "\n")
	for _, part := range []string{"1000 lookups/s  50.0k keys/s  10.0 failed/s", "q.yaml:1:2: no such key", "restart: listen.grpc", "140  ", "2.50", "hedges",
		"✕ ejected", "◔ slow start", "7×  PARTIAL of shop.", "by checkout"} {
		assert.Contains(t, text, part)
	}
	assert.Less(t, strings.Index(text, "10.0.0.2:9042"), strings.Index(text, "10.0.0.1:9042"), "the worst host first")
	assert.Less(t, strings.Index(text, "1000  "), strings.Index(text, "shop.idle"), "the busiest table first")
	assert.NotContains(t, text, "\x1b")

	coloured := strings.Join(h.draw(200, 0, true), "\n")
	assert.Contains(t, coloured, terminal.Paint("140", terminal.Red, true), "p95 is over the SLA")
	assert.NotContains(t, coloured, string(terminal.Red)+"180", "p99 is not promised")
	assert.Equal(t, text, terminal.Bare(coloured), "colours change nothing else")

	h.lost = fmt.Errorf("no proxy answers at %s", steering)
	text = strings.Join(h.draw(200, 0, false), "\n")
	assert.Contains(t, text, "✕ no proxy answers at shop.")
	assert.Contains(t, text, "What follows is of")
	assert.NotContains(t, text, "\x1b")
	assert.Len(t, (&topHistory{lost: h.lost}).draw(80, 24, false), 1, "never reached")
}

func TestTopShowsWhatIsSharedAt80Columns(t *testing.T) {
	var h topHistory
	for _, at := range []time.Duration{time.Second, 2 * time.Second} {
		s := watched(at)
		s.Hosts = s.Hosts[:4] // no state with a long name
		h.add(s)
	}
	text := strings.Join(h.draw(80, 0, false), "\n")
	assert.Regexp(t, `HOST .* KEYS  STMTS  WAIT  K/STMT   LAT  OLDEST`, text)
	assert.Regexp(t, `\n +ms      ms`, text, "units below the names")
	assert.Regexp(t, `10\.0\.0\.3:9042 .*  2  +4  +14  +23\.0  +2\.50  `, text)
}

func TestTopLeavesOutColumnsThatNobodyFills(t *testing.T) {
	var h topHistory
	h.add(watched(time.Second))
	assert.Contains(t, strings.Join(h.draw(200, 0, false), "\n"), "GIVES UP")
	h.seen[0].Tables[1].GivesUp = ""
	assert.NotContains(t, strings.Join(h.draw(200, 0, false), "\n"), "GIVES UP")
}

func TestTopFitsItsWindow(t *testing.T) {
	h := topHistory{seen: []*status.Snapshot{watched(time.Second), watched(2 * time.Second)}}
	for width := 1; width < 160; width++ {
		for _, height := range []int{1, 2, 5, 24, 100} {
			lines := h.draw(width, height, true)
			require.LessOrEqual(t, len(lines), height)
			for _, line := range lines {
				require.LessOrEqual(t, uniseg.StringWidth(terminal.Bare(line)), width)
				require.Equal(t, strings.Count(line, "\x1b["), 2*strings.Count(line, "\x1b[0m"), "a colour that goes on: %q", line)
			}
		}
	}
}

// admin serves snapshots that are one second apart.
func admin(t *testing.T) http.Handler {
	looks := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status/live" {
			http.NotFound(w, r)
			return
		}
		looks++
		assert.NoError(t, json.NewEncoder(w).Encode(watched(time.Duration(looks)*time.Second)))
	})
}

func TestTopOnce(t *testing.T) {
	site := httptest.NewServer(admin(t))
	defer site.Close()
	out, err := execute(t, "top", "--once", "--interval", "200ms", "--admin", strings.TrimPrefix(site.URL, "http://"))
	require.NoError(t, err)
	assert.Contains(t, out, "1000 lookups/s")
	assert.NotContains(t, out, "\x1b")

	out, err = execute(t, "top", "--once", "-o", "json", "--admin", site.URL+"/")
	require.NoError(t, err)
	var s status.Snapshot
	require.NoError(t, json.Unmarshal([]byte(out), &s))
	assert.Len(t, s.Hosts, 5)

	t.Setenv("QOSPROXY_LISTEN_ADMIN", strings.TrimPrefix(site.URL, "http://"))
	_, err = execute(t, "top", "--once", "-o", "json")
	require.NoError(t, err, "the address of the configuration")

	socket := filepath.Join(t.TempDir(), "a.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	go func() { _ = (&http.Server{Handler: admin(t)}).Serve(l) }()
	defer l.Close()
	_, err = execute(t, "top", "--once", "-o", "json", "--admin", "unix://"+socket)
	require.NoError(t, err)
}

func TestTopSaysWhatIsNotAProxy(t *testing.T) {
	_, err := execute(t, "top", "--once", "--admin", "127.0.0.1:1")
	require.ErrorContains(t, err, "no proxy answers at 127.0.0.1:1")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer site.Close()
	_, err = execute(t, "top", "--once", "--admin", site.URL)
	require.ErrorContains(t, err, "is not the admin listener of a qosproxy of this version")
}

func TestTopSpeaksTLS(t *testing.T) {
	cert, key := issue(t, "proxy.test")
	clientCert, clientKey := issue(t, "client.test")
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	authorities := x509.NewCertPool()
	pem, err := os.ReadFile(clientCert)
	require.NoError(t, err)
	require.True(t, authorities.AppendCertsFromPEM(pem))
	site := httptest.NewUnstartedServer(admin(t))
	site.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities}
	site.Config.ErrorLog = log.New(io.Discard, "", 0)
	site.StartTLS()
	defer site.Close()
	open := httptest.NewServer(admin(t))
	defer open.Close()
	socket := filepath.Join(t.TempDir(), "a.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	local := &http.Server{Handler: admin(t), TLSConfig: site.TLS, ErrorLog: site.Config.ErrorLog}
	defer local.Close()
	go func() { _ = local.ServeTLS(l, "", "") }()
	secured := strings.TrimPrefix(site.URL, "https://")
	for name, tt := range map[string]struct {
		args []string
		err  string
	}{
		"with a certificate":               {[]string{"--admin", secured, "--ca", cert, "--server-name", "proxy.test", "--cert", clientCert, "--key", clientKey}, ""},
		"with a URL":                       {[]string{"--admin", site.URL, "--ca", cert, "--server-name", "proxy.test", "--cert", clientCert, "--key", clientKey}, ""},
		"over a socket":                    {[]string{"--admin", "unix://" + socket, "--ca", cert, "--server-name", "proxy.test", "--cert", clientCert, "--key", clientKey}, ""},
		"over a socket, without one":       {[]string{"--admin", "unix://" + socket, "--ca", cert, "--server-name", "proxy.test"}, "set --cert and --key"},
		"without one":                      {[]string{"--admin", secured, "--ca", cert, "--server-name", "proxy.test"}, "set --cert and --key"},
		"an authority that is not known":   {[]string{"--admin", secured, "--tls", "--server-name", "proxy.test"}, "set --ca"},
		"another name":                     {[]string{"--admin", secured, "--ca", cert, "--server-name", "other.test"}, "set --server-name"},
		"half a pair":                      {[]string{"--admin", secured, "--cert", clientCert}, "--cert and --key go together"},
		"TLS to a listener that has none":  {[]string{"--admin", strings.TrimPrefix(open.URL, "http://"), "--tls"}, "it answers without TLS"},
		"no TLS to a listener that has it": {[]string{"--admin", secured}, "not the admin listener"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, append([]string{"top", "--once", "-o", "json"}, tt.args...)...)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.err)
		})
	}
}
