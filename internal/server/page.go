package server

import (
	"embed"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/status"
)

// pages are the parts of the status page, in files of their own so that a browser may
// be told to run nothing else.
//
//go:embed page.html page.css page.js
var pages embed.FS

// pagePolicy is the Content-Security-Policy of the page: its own style and script, its
// own answers, and nothing else. No text becomes markup or code, whatever a table is
// called.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageTypes are the media types of the parts.
var pageTypes = map[string]string{
	"page.html": "text/html; charset=utf-8", "page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
}

// servePages routes what the status page is made of. The page itself is at /status.
func (s *Server) servePages(mux *http.ServeMux) {
	if s.deps.Board == nil {
		return
	}
	for _, name := range []string{"page.css", "page.js"} {
		mux.HandleFunc("GET /status/"+name, func(w http.ResponseWriter, _ *http.Request) { servePage(w, name) })
	}
	mux.HandleFunc("GET /status/live", s.serveLive)
	if s.deps.YAML != nil {
		mux.HandleFunc("GET /status/config", s.serveConfig)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		// Relative, so that it works behind a proxy that serves it below a path.
		w.Header().Set("Location", "status")
		writeText(w, http.StatusFound, "see status\n")
	})
}

func servePage(w http.ResponseWriter, name string) {
	body, err := pages.ReadFile(name)
	if err != nil { // only by a name that this package misspells
		writeError(w, httpError{status: internal.http, code: internal.label, message: "the page is not in this build"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", pageTypes[name])
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// The next build may have other parts under the same names.
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(httpWriteTimeout))
	_, _ = w.Write(body)
}

// serveLive answers with the snapshot that the page and qosproxy top draw;
// ?history=keyspace.table adds the last five minutes of that table.
func (s *Server) serveLive(w http.ResponseWriter, r *http.Request) {
	var live status.Snapshot
	if table := r.URL.Query().Get("history"); table != "" {
		live = s.deps.Board.WithHistory(table)
	} else {
		live = s.deps.Board.Snapshot()
	}
	live.Version, live.Reason = s.cfg.Version, s.unready()
	live.Ready = live.Reason == ""
	w.Header().Set("Cache-Control", "no-store")
	writeValue(w, http.StatusOK, live)
}

// serveConfig answers with the configuration in use.
func (s *Server) serveConfig(w http.ResponseWriter, _ *http.Request) {
	text, err := s.deps.YAML()
	if err != nil {
		writeError(w, httpError{status: internal.http, code: internal.label, message: "the configuration could not be written: " + err.Error()})
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	writeText(w, http.StatusOK, string(text))
}

// wantsHTML reports whether a browser asks, by ?format= or by an Accept header that
// names HTML and does not prefer JSON. Tools that accept anything get JSON.
func wantsHTML(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "html"
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	html := acceptance(accept, "text/html")
	return html > 0 && html >= acceptance(accept, "application/json")
}

// acceptance returns the weight that an Accept header gives to a media type by name; 0
// when it does not name it.
func acceptance(accept, media string) float64 {
	for part := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), media) {
			continue
		}
		for p := range strings.SplitSeq(parameters, ";") {
			if weight, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				q, err := strconv.ParseFloat(weight, 64)
				if err != nil {
					return 0
				}
				return q
			}
		}
		return 1
	}
	return 0
}
