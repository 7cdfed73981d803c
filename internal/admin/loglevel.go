package admin

import (
	"log/slog"
	"net/http"
	"strings"
)

// serveLogLevel shows the level of the log.
func (p *pages) serveLogLevel(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, strings.ToLower(p.deps.LogLevel.Level().String())+"\n")
}

// setLogLevel takes ?level=debug, info, warn or error.
func (p *pages) setLogLevel(w http.ResponseWriter, r *http.Request) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(r.URL.Query().Get("level"))); err != nil {
		badRequest(w, "level", "expected ?level=debug, info, warn or error")
		return
	}
	p.deps.LogLevel.Set(level)
	p.deps.Log.Info("log level changed", "level", level)
	p.serveLogLevel(w, r)
}
