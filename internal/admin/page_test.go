package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/status"
)

// hostile are names that would be run by, or break, a page that trusts them.
var hostile = []string{
	`<img src=x onerror="document.title='owned'">`,
	`</script><script>document.title='owned'</script>`,
	`"><svg onload=document.title='owned'>`,
	"\u202egnp.exe\u2066", "a.b&amp;&#x3c;b&#x3e;", `javascript:document.title='owned'`, "__proto__", "a.very_long_name_that_has_no_place_to_break_and_goes_on_and_on_and_on_beyond_any_screen",
}

// scriptedSource simulates a proxy under load. If hostile is set, its names are
// hostile.
type scriptedSource struct {
	hostile bool
	calm    bool // no trouble is reported
}

func (s scriptedSource) names() []string {
	if s.hostile {
		return hostile
	}
	return []string{"shop.products", "shop.features", "shop.prices"}
}

func (s scriptedSource) Fill(to *status.Snapshot) {
	now := to.Time
	window := status.Window{Count: 12345, P50MS: 3.2, P95MS: 9.8, P99MS: 18.4, P999MS: 61.2, MaxMS: 140, Ratio: 0.9991, BurnRate: 0.02}
	for i, name := range s.names() {
		w := window
		if i == 1 && !s.calm {
			w.P95MS, w.P99MS, w.P999MS, w.Ratio, w.BurnRate = 131, 180, 240, 0.91, 1.8
		}
		w.Count /= int64(i + 1)
		to.Tables = append(to.Tables, status.Table{Name: name, SLO: &status.SLO{
			Percentile: 95, TargetMS: 125, OperateAtMS: 62.5, Now: w, Minute: w, FiveMinutes: w,
		}})
	}
	if !s.calm {
		to.Tables[1].Level, to.Tables[1].GivesUp = 1, "hedges"
	}
	to.Ring = &status.Ring{LocalDC: "dc1", Keyspaces: []string{"shop"}, Refreshed: now}
	for i, state := range []status.HostState{"healthy", "healthy", "slow_start", "probing", "suspect", "ejected", "healthy", "remote"} {
		if s.calm && i < 7 {
			state = "healthy"
		}
		h := status.Host{
			Address: fmt.Sprintf("10.0.%d.%d:9042", i/4, i+1), DC: "dc1", Rack: fmt.Sprintf("r%d", i%3), Release: "5.0.9", Share: 0.125, State: state,
			InflightKeys: 7 * i, InflightSubQueries: i, LatencyMS: 2.1 + float64(i)/3, SubQueries: now.UnixMilli() / int64(i+1), Hedges: now.UnixMilli() / 100,
			HedgedAway: now.UnixMilli() / int64(1000/(i+1)),
		}
		if state == "ejected" {
			h.Failures, h.ProbeInMS, h.OldestMS = 5, 2400, 812
		}
		if s.hostile && i == 0 {
			h.Address, h.Rack = hostile[0], hostile[1]
		}
		to.Hosts = append(to.Hosts, h)
	}
	to.Admission = &status.Admission{Enabled: true, LimitKeys: 4200, InflightKeys: 180}
	to.Config = status.Config{File: "/etc/qosproxy/qosproxy.yaml", Hash: "5f0c2a9e", Loaded: now.Add(-time.Hour)}
	if s.hostile {
		to.Config.Error = hostile[0]
	}
}

func (s scriptedSource) History(string) []status.Step {
	var out []status.Step
	for i := range 30 {
		t := time.Now().Add(time.Duration(i-30) * 10 * time.Second)
		if i == 11 || i == 12 {
			continue
		}
		rise := 1.0
		if i > 20 && !s.calm {
			rise = 1 + float64(i-20)/2
		}
		out = append(out, status.Step{Time: t, Window: status.Window{Count: 400, P50MS: 3 + float64(i%3)/4, P95MS: 9.5 * rise, P99MS: 17*rise + float64(i%4), P999MS: 55 * rise, MaxMS: 90 * rise, Ratio: 1}})
	}
	return out
}

// scriptedPages returns the pages over a board with a scripted source.
func scriptedPages(t testing.TB, source scriptedSource) (http.Handler, *status.Board) {
	t.Helper()
	deps := scriptedDeps(t, source)
	return New(Config{Version: "1.2.3"}, deps), deps.Board
}

func scriptedDeps(t testing.TB, source scriptedSource) Deps {
	t.Helper()
	board := status.New(source)
	for i, table := range source.names() {
		for range 50 * (i + 1) {
			board.Observe(&status.Lookup{Table: table, Client: source.names()[i], Keys: 50, Code: "OK", Duration: 9 * time.Millisecond})
		}
	}
	if !source.calm {
		for range 7 {
			board.Observe(&status.Lookup{Table: source.names()[1], Client: source.names()[0], Keys: 50, Unanswered: 3, Code: "PARTIAL", Duration: 125 * time.Millisecond, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"})
		}
		board.Observe(&status.Lookup{Table: source.names()[0], Client: source.names()[0], Keys: 50, Unanswered: 50, Code: "RESOURCE_EXHAUSTED", Duration: 90 * time.Microsecond})
	}
	return Deps{Lookup: &fake{ring: twoHosts(t)}, NotReady: ready, Board: board, YAML: func() ([]byte, error) {
		return []byte("cassandra:\n  contact_points: [10.0.0.1]\n  username: \"" + hostile[1] + "\"\n"), nil
	}}
}

func TestStatusIsAPageForBrowsersAndJSONForTheRest(t *testing.T) {
	s, _ := scriptedPages(t, scriptedSource{})
	for accept, page := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/plain, */*": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"text/html": true, "TEXT/HTML;q=0.5": true,
		"text/html, application/json":              true,
		"application/json, text/html;q=0.5":        false,
		"text/html;q=0.5;level=1,application/json": false,
		"text/html;q=0":                            false, "text/html;q=nonsense": false,
	} {
		w := do(s, "GET", "/status", "Accept", accept)
		want := "application/json"
		if page {
			want = "text/html; charset=utf-8"
		}
		assert.Equal(t, want, w.Header().Get("Content-Type"), "%q", accept)
		assert.Equal(t, "Accept", w.Header().Get("Vary"))
	}
	assert.Contains(t, do(s, "GET", "/status?format=html").Body.String(), "<!doctype html>")
	assert.True(t, json.Valid(do(s, "GET", "/status?format=json", "Accept", "text/html").Body.Bytes()))
	root := do(s, "GET", "/")
	assert.Equal(t, http.StatusFound, root.Code)
	assert.Equal(t, "status", root.Header().Get("Location"))
	assert.Equal(t, http.StatusNotFound, do(s, "GET", "/statuses").Code)
}

func TestThePageRunsNothingButItself(t *testing.T) {
	s, _ := scriptedPages(t, scriptedSource{})
	page := do(s, "GET", "/status", "Accept", "text/html")
	policy := page.Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")
	assert.Equal(t, "nosniff", page.Header().Get("X-Content-Type-Options"))
	assert.NotRegexp(t, `(?i)\son[a-z]+=|style=|https?://|<script>`, page.Body.String(), "nothing inline, nothing from outside")
	for _, part := range []string{"page.css", "page.js"} {
		w := do(s, "GET", "/status/"+part)
		assert.Equal(t, pageTypes[part], w.Header().Get("Content-Type"))
		assert.NotEmpty(t, w.Body.String())
		assert.Contains(t, page.Body.String(), `"status/`+part+`"`)
		assert.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|@import|url\(`, w.Body.String())
	}
}

func TestLiveIsTheSnapshot(t *testing.T) {
	s, _ := scriptedPages(t, scriptedSource{hostile: true})
	w := do(s, "GET", "/status/live")
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	assert.NotContains(t, w.Body.String(), "<", "JSON that is harmless even where it is taken for HTML")
	var live status.Snapshot
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &live))
	assert.True(t, live.Ready)
	assert.Equal(t, "1.2.3", live.Version)
	assert.Len(t, live.Hosts, 8)
	assert.NotZero(t, live.Total.Lookups)
	assert.Len(t, live.Errors, 2)
	for _, table := range live.Tables {
		assert.Empty(t, table.SLO.History)
		assert.Contains(t, hostile, table.Name)
	}

	s, _ = scriptedPages(t, scriptedSource{})
	live = status.Snapshot{}
	require.NoError(t, json.Unmarshal(do(s, "GET", "/status/live?history=shop.products").Body.Bytes(), &live))
	for _, table := range live.Tables {
		assert.Equal(t, table.Name == "shop.products", len(table.SLO.History) > 0, table.Name)
	}
	deps := scriptedDeps(t, scriptedSource{})
	deps.NotReady = func() string { return "draining: the proxy is shutting down" }
	assert.Contains(t, do(New(Config{}, deps), "GET", "/status/live?history=nope").Body.String(), `"ready":false,"reason":"draining`)
}

func TestTheConfigurationIsText(t *testing.T) {
	s, _ := scriptedPages(t, scriptedSource{})
	w := do(s, "GET", "/status/config")
	assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), "whatever it holds, it is not HTML")
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	deps := scriptedDeps(t, scriptedSource{})
	deps.YAML = func() ([]byte, error) { return nil, errors.New("no") }
	assert.Equal(t, http.StatusInternalServerError, do(New(Config{}, deps), "GET", "/status/config").Code)
}

func TestWithoutABoardThereIsNoPage(t *testing.T) {
	s := New(Config{}, Deps{Lookup: &fake{}, NotReady: ready})
	for _, path := range []string{"/", "/status/live", "/status/config", "/status/page.js"} {
		assert.Equal(t, http.StatusNotFound, do(s, "GET", path).Code, path)
	}
	assert.Equal(t, "application/json", do(s, "GET", "/status", "Accept", "text/html").Header().Get("Content-Type"))
}

// TestReadersAndLookupsDoNotDisturbEachOther is meant for the race detector.
func TestReadersAndLookupsDoNotDisturbEachOther(t *testing.T) {
	s, board := scriptedPages(t, scriptedSource{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 200 {
				board.Observe(&status.Lookup{Table: fmt.Sprint("t", j%7), Client: strconv.Itoa(i), Keys: 1, Code: []lookup.Code{lookup.CodeOK, lookup.CodePartial}[j%2]})
			}
		})
		all.Go(func() {
			for range 20 {
				w := do(s, "GET", "/status/live?history=shop.products")
				assert.True(t, json.Valid(w.Body.Bytes()))
			}
		})
	}
	all.Wait()
}
