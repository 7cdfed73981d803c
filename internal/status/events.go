package status

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Error is a problem of one kind: lookups of a client and table that ended with the same
// code, or a warning of the log. It holds no key, nothing that a client words freely
// and no secret.
type Error struct {
	// First and Last are when it was seen; Count is how often, 1 or more.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int64     `json:"count"`
	// Level is LevelInfo for a host that changed its state.
	Level Level `json:"level"`
	// Message says what happened: the code of the lookups, or what the log said.
	Message string `json:"message"`
	// Table and Client are of lookups; empty otherwise.
	Table  string `json:"table,omitempty"`
	Client string `json:"client,omitempty"`
	// Host is the host that the log tells of; empty for none.
	Host string `json:"host,omitempty"`
	// Reason is why the lookups failed, one word of the API's list; empty where there is none.
	Reason string `json:"reason,omitempty"`
	// Detail are particulars of the last time, as words name=value.
	Detail string `json:"detail,omitempty"`
	// TraceID is of the trace of the last lookup; empty for none.
	TraceID string `json:"trace_id,omitempty"`
}

// Level is how bad a problem is, in one word.
type Level string

// The levels of problems.
const (
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// levelOf returns the level of a record of the log.
func levelOf(l slog.Level) Level {
	switch {
	case l >= slog.LevelError:
		return LevelError
	case l >= slog.LevelWarn:
		return LevelWarn
	}
	return LevelInfo
}

// The bounds of what is remembered of problems.
const (
	// mostEvents is how many kinds of problems are remembered, the latest.
	mostEvents = 50
	// sameEvent is for how long a problem of a kind counts as the same; after it, it
	// begins anew.
	sameEvent = time.Minute
	// mostText is the most bytes of a text that is shown.
	mostText = 300
)

// kind is what problems are told apart by.
type kind struct{ message, table, client, host, reason string }

// events are the latest problems by kind.
type events struct {
	mu    sync.Mutex
	kinds map[kind]*Error
}

// lookup takes a lookup that failed. There may be very many of them, so that a text is
// made of the first in a second only.
func (e *events) lookup(l *Lookup, now time.Time) {
	k := kind{message: string(l.Code), table: l.Table, client: l.Client, reason: short(l.Reason)}
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.kinds[k]
	if known != nil && now.Sub(known.Last) < sameEvent {
		known.Count++
		if now.Sub(known.Last) < time.Second {
			return
		}
	}
	e.add(k, now, Error{
		Level: LevelWarn, TraceID: l.TraceID,
		Detail: fmt.Sprintf("%d of %d keys unanswered after %s", l.Unanswered, l.Keys, l.Duration.Round(100*time.Microsecond)),
	})
}

// record takes a record of the log, which is about a host unless that is empty.
func (e *events) record(level Level, message, host, detail string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := kind{message: short(message), host: short(host)}
	if known := e.kinds[k]; known != nil && at.Sub(known.Last) < sameEvent {
		known.Count++
	}
	e.add(k, at, Error{Level: level, Detail: short(detail)})
}

// add sets what is known of a kind, whose count has been raised if it is the same
// problem as before. The mutex is held.
func (e *events) add(k kind, now time.Time, said Error) {
	if e.kinds == nil {
		e.kinds = make(map[kind]*Error)
	}
	known := e.kinds[k]
	if known == nil || now.Sub(known.Last) >= sameEvent {
		said.First, said.Count = now.UTC(), 1
	} else {
		said.First, said.Count = known.First, known.Count
	}
	said.Last, said.Message, said.Table, said.Client = now.UTC(), k.message, k.table, k.client
	said.Host, said.Reason = k.host, k.reason
	e.kinds[k] = &said
	if len(e.kinds) <= mostEvents {
		return
	}
	oldest := k
	for other, x := range e.kinds {
		if x.Last.Before(e.kinds[oldest].Last) {
			oldest = other
		}
	}
	delete(e.kinds, oldest)
}

// latest returns the latest problems first.
func (e *events) latest() []Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Error, 0, len(e.kinds))
	for _, x := range e.kinds {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Error) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Message, b.Message), strings.Compare(a.Table, b.Table), strings.Compare(a.Client, b.Client),
			strings.Compare(a.Host, b.Host), strings.Compare(a.Reason, b.Reason))
	})
	return out
}

// short bounds a text, on one line.
func short(s string) string {
	if len(s) > mostText {
		s = strings.ToValidUTF8(s[:mostText], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
