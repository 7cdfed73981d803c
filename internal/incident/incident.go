// Package incident decides what a panic ends: the request in which it happens, or one
// round of a background loop, and never the process. Each panic gets an id. The log shows
// the cause under this id, and the client gets only the id.
package incident

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// Error is the error of a request or round that a panic has ended.
type Error struct {
	// ID identifies the panic in the log: twelve hexadecimal digits.
	ID string
}

// Error returns a text for clients. It reveals nothing of the panic but its id.
func (e *Error) Error() string {
	return "the proxy failed on this request; its log has the cause under incident " + e.ID
}

// ClientReason implements reasons.Carrier.
func (e *Error) ClientReason() reasons.Reason { return reasons.Internal }

// Log recovers from panics, logs them and counts them. A nil Log writes to slog.Default
// and counts nothing. It is safe for concurrent use.
type Log struct {
	log    *slog.Logger
	panics prometheus.Counter
}

// New returns a Log. A nil log means slog.Default, and a nil registerer registers nothing.
// The error is that of a metric which is registered already.
func New(log *slog.Logger, registerer prometheus.Registerer) (*Log, error) {
	l := &Log{log: log, panics: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "qosproxy_panics_total",
		Help: "Panics that ended a request, or one round of a background loop; each is an error in this program. " +
			"The log has the cause of each under its incident.",
	})}
	if registerer == nil {
		return l, nil
	}
	if err := registerer.Register(l.panics); err != nil {
		return nil, fmt.Errorf("register the metric of panics: %w", err)
	}
	return l, nil
}

// Record logs a panic and returns its error. recovered is what recover returned, and where
// says in the log what was being done. Call Record in the deferred function itself, so
// that the stack is that of the panic. A value that is not a runtime.Error is logged only
// by its type, since it could hold a key.
func (l *Log) Record(ctx context.Context, where string, recovered any) *Error {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	e := &Error{ID: hex.EncodeToString(id[:])}
	what := fmt.Sprintf("%T", recovered)
	var fault runtime.Error
	if err, ok := recovered.(error); ok && errors.As(err, &fault) {
		what = fault.Error()
	}
	log := slog.Default()
	if l != nil {
		l.panics.Inc()
		if l.log != nil {
			log = l.log
		}
	}
	log.ErrorContext(ctx, "panic", "incident", e.ID, "where", where, "panic", what, "stack", string(debug.Stack()))
	return e
}

// Catch is to be deferred. When the function that defers it panics, Catch stores an *Error
// in *err and lets that function return. err may be nil.
func (l *Log) Catch(ctx context.Context, where string, err *error) {
	if r := recover(); r != nil {
		e := l.Record(ctx, where, r)
		if err != nil {
			*err = e
		}
	}
}

// Run calls f and returns an *Error when it panics, nil otherwise.
func (l *Log) Run(ctx context.Context, where string, f func()) (err error) {
	defer l.Catch(ctx, where, &err)
	f()
	return nil
}

// The pause of Keep before it calls again: it doubles with each panic.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// Keep calls loop until it returns or ctx ends. When loop panics, Keep calls it again
// after a pause, so that no background work ends silently.
func (l *Log) Keep(ctx context.Context, where string, loop func(context.Context)) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if l.Run(ctx, where, func() { loop(ctx) }) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
