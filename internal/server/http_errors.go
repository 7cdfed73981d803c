package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// httpError is an error as the HTTP listener answers it.
type httpError struct {
	status         int
	code           lookup.Code
	why            reasons.Reason
	field, message string
	retry          time.Duration
	// challenge is the WWW-Authenticate header that a 401 must have.
	challenge string
}

// Error returns the message.
func (e httpError) Error() string { return e.message }

// badRequest returns a 400 that names a field.
func badRequest(field, message string) httpError {
	return httpError{status: http.StatusBadRequest, code: refusals[lookup.ErrInvalid].code, why: reasons.InvalidRequest, field: field, message: message}
}

// errorOf converts the error of a request to an httpError.
func errorOf(r *http.Request, err error) httpError {
	if worded, ok := errors.AsType[httpError](err); ok {
		return worded
	}
	o := outcomeOfError(r.Context(), err)
	out := httpError{status: o.http, code: o.code, why: o.why, message: cmp.Or(messageOf(err), string(o.code)), retry: o.retry}
	if refused, ok := errors.AsType[*lookup.Error](err); ok {
		out.field, out.message = refused.Field, refused.Message
	}
	if failed, ok := errors.AsType[*incident.Error](err); ok {
		out.message = failed.Error()
	}
	if unknown, ok := errors.AsType[*identity.Error](err); ok {
		out.challenge = challenge(unknown.Reason)
	}
	return out
}

// failHTTP ends a call with an error, and writes it.
func (c *call) failHTTP(w http.ResponseWriter, r *http.Request, err error) {
	if _, broken := errors.AsType[httpError](err); broken {
		c.outcome = refusals[lookup.ErrInvalid]
	} else {
		c.outcome = outcomeOfError(r.Context(), err)
	}
	e := errorOf(r, err)
	c.status = e.status
	writeError(w, e)
}

func writeError(w http.ResponseWriter, e httpError) {
	type inner struct {
		Code    lookup.Code `json:"code"`
		Reason  string      `json:"reason"`
		Message string      `json:"message"`
		Field   string      `json:"field,omitempty"`
	}
	body, err := json.Marshal(map[string]inner{"error": {e.code, cmp.Or(e.why, reasons.Internal).String(), e.message, e.field}})
	if err != nil {
		body = []byte(`{"error":{"code":"INTERNAL","reason":"internal","message":"the error could not be written as JSON"}}`)
	}
	w.Header().Set("Cache-Control", "no-store")
	setRetryAfter(w.Header(), e.retry)
	if e.challenge != "" {
		w.Header().Set("WWW-Authenticate", e.challenge)
	}
	writeJSON(w, e.status, append(body, '\n'))
}

// challenge returns the header that RFC 6750 requires when a bearer token is wrong
// or missing.
func challenge(reason identity.Reason) string {
	if reason == identity.WrongToken {
		return `Bearer realm="qosproxy", error="invalid_token"`
	}
	return `Bearer realm="qosproxy"`
}

func methodNotAllowed(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	writeError(w, httpError{status: http.StatusMethodNotAllowed, code: refusals[lookup.ErrInvalid].code, why: reasons.UnknownMethod, field: "method",
		message: "this path takes " + allowed})
}

// setRetryAfter says when to retry, in whole seconds as HTTP requires.
func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
	}
}
