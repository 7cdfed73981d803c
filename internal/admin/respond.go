package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// writeTimeout bounds the time that a client may take to read a whole page.
const writeTimeout = 30 * time.Second

// The codes of errors, as in the HTTP/JSON API.
const (
	invalid     = "INVALID_ARGUMENT"
	unavailable = "UNAVAILABLE"
	internal    = "INTERNAL"
)

// textual is a page that is shown as JSON or, for a terminal, as text.
type textual interface{ text() string }

// writePage writes a page as text or JSON, as the client prefers.
func writePage(w http.ResponseWriter, r *http.Request, page textual) {
	if wantsText(r) {
		writeText(w, http.StatusOK, page.text())
		return
	}
	writeIndented(w, page)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// writeIndented writes JSON that a person can read without a tool.
func writeIndented(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	writeBody(w, http.StatusOK, body, err)
}

// writeJSON writes compact JSON.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	writeBody(w, status, body, err)
}

// writeBody writes a JSON body, or an error if err is not nil.
func writeBody(w http.ResponseWriter, status int, body []byte, err error) {
	if err != nil {
		writeError(w, http.StatusInternalServerError, internal, "", "the answer could not be written as JSON: "+err.Error())
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// Neither error can be reported to anyone: only the writer of a test lacks
	// deadlines, and a client that is gone reads no error.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// writeError writes an error in the form of the HTTP/JSON API.
func writeError(w http.ResponseWriter, status int, code, field, message string) {
	type inner struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
	}
	writeJSON(w, status, map[string]inner{"error": {code, message, field}})
}

// badRequest writes an error about a parameter.
func badRequest(w http.ResponseWriter, field, message string) {
	writeError(w, http.StatusBadRequest, invalid, field, message)
}

// wantsText reports whether the client asks for text, by ?format=text or its Accept
// header.
func wantsText(r *http.Request) bool {
	format := r.URL.Query().Get("format")
	return format == "text" || format == "" && strings.HasPrefix(r.Header.Get("Accept"), "text/plain")
}

// wantsHTML reports whether the client asks for HTML, by ?format=html or by an Accept
// header that names HTML and does not prefer JSON. Tools that accept anything get JSON.
func wantsHTML(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "html"
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	html := acceptance(accept, "text/html")
	return html > 0 && html >= acceptance(accept, "application/json")
}

// acceptance returns the weight that an Accept header gives to a media type that it
// names; 0 if it does not name it.
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
