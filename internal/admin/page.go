package admin

import (
	"embed"
	"net/http"
	"strconv"
	"time"

	"github.com/qosproxy/qosproxy/internal/status"
)

// parts are the files of the status page. Style and script are files of their own, so
// that the policy can forbid inline ones.
//
//go:embed page.html page.css page.js
var parts embed.FS

// pagePolicy is the Content-Security-Policy of the page. It allows the page's own style,
// script and requests, and nothing else. No text can become markup or code, whatever the
// name of a table is.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageTypes are the media types of the parts.
var pageTypes = map[string]string{
	"page.html": "text/html; charset=utf-8", "page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
}

// routeStatusPage adds the routes of the status page's parts. The page itself is at
// /status.
func (p *pages) routeStatusPage(mux *http.ServeMux) {
	for _, name := range []string{"page.css", "page.js"} {
		mux.HandleFunc("GET /status/"+name, func(w http.ResponseWriter, _ *http.Request) { servePart(w, name) })
	}
	mux.HandleFunc("GET /status/live", p.serveLive)
	if p.deps.YAML != nil {
		mux.HandleFunc("GET /status/config", p.serveConfig)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		// The location is relative, so that it works behind a proxy that serves the page
		// below a path.
		w.Header().Set("Location", "status")
		writeText(w, http.StatusFound, "see status\n")
	})
}

// servePart answers with a part of the page.
func servePart(w http.ResponseWriter, name string) {
	body, err := parts.ReadFile(name)
	if err != nil { // only if this package misspells a name
		writeError(w, http.StatusInternalServerError, internal, "", "the page is not in this build")
		return
	}
	h := w.Header()
	h.Set("Content-Type", pageTypes[name])
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// The next build may have other content under the same names.
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = w.Write(body)
}

// serveLive answers with the snapshot that the page and qosproxy top draw;
// ?history=keyspace.table adds the last five minutes of that table.
func (p *pages) serveLive(w http.ResponseWriter, r *http.Request) {
	var live status.Snapshot
	if table := r.URL.Query().Get("history"); table != "" {
		live = p.deps.Board.WithHistory(table)
	} else {
		live = p.deps.Board.Snapshot()
	}
	live.Version, live.Reason = p.cfg.Version, p.deps.NotReady()
	live.Ready = live.Reason == ""
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, live)
}

// serveConfig answers with the configuration in use.
func (p *pages) serveConfig(w http.ResponseWriter, _ *http.Request) {
	text, err := p.deps.YAML()
	if err != nil {
		writeError(w, http.StatusInternalServerError, internal, "", "the configuration could not be written: "+err.Error())
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	writeText(w, http.StatusOK, string(text))
}
