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

// Error is a problem of one kind: lookups of a client and table that ended with the same code,
// or a warning in the log. It contains no key, no secret and nothing else that a client words
// freely.
type Error struct {
	// First and Last are when it was seen; Count is how often, at least 1.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int64     `json:"count"`
	// Level is LevelInfo for a host that changed its state.
	Level Level `json:"level"`
	// Message says what happened: the code of the lookups, or the log message.
	Message string `json:"message"`
	// Table and Client are those of lookups; empty for log records.
	Table  string `json:"table,omitempty"`
	Client string `json:"client,omitempty"`
	// Host is the host that the log record is about; empty for none.
	Host string `json:"host,omitempty"`
	// Reason is why the lookups failed, as a word of package reasons; empty for none.
	Reason string `json:"reason,omitempty"`
	// Detail has particulars of the last occurrence, for log records as name=value.
	Detail string `json:"detail,omitempty"`
	// TraceID identifies the trace of the last lookup; empty for none.
	TraceID string `json:"trace_id,omitempty"`
}

// Level is the severity of a problem.
type Level string

// The levels of problems.
const (
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// levelOf returns the level of a log record.
func levelOf(l slog.Level) Level {
	switch {
	case l >= slog.LevelError:
		return LevelError
	case l >= slog.LevelWarn:
		return LevelWarn
	}
	return LevelInfo
}

// The limits for what is remembered of problems.
const (
	// mostEvents is how many kinds of problems are remembered: the latest ones.
	mostEvents = 50
	// sameEvent is the gap within which problems of a kind count as one; after a longer gap,
	// the count begins again.
	sameEvent = time.Minute
	// mostText is the maximum size of a text that is shown, in bytes.
	mostText = 300
)

// kind identifies problems that count as the same.
type kind struct{ message, table, client, host, reason string }

// events are the latest problems by kind.
type events struct {
	mu    sync.Mutex
	kinds map[kind]*Error
}

// lookup records a failed lookup. There may be very many of them, so that only the first in a
// second formats a text.
func (e *events) lookup(l *Lookup, now time.Time) {
	k := kind{message: string(l.Code), table: l.Table, client: l.Client, reason: short(l.Reason)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.kinds[k]; known != nil && now.Sub(known.Last) < time.Second {
		known.Count++
		return
	}
	e.add(k, now, Error{
		Level: LevelWarn, TraceID: l.TraceID,
		Detail: fmt.Sprintf("%d of %d keys unanswered after %s", l.Unanswered, l.Keys, l.Duration.Round(100*time.Microsecond)),
	})
}

// record records a log record. host is empty unless it is about a host.
func (e *events) record(level Level, message, host, detail string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(kind{message: short(message), host: short(host)}, at, Error{Level: level, Detail: short(detail)})
}

// add counts an occurrence of a kind, which becomes its latest. The mutex is held.
func (e *events) add(k kind, now time.Time, said Error) {
	if e.kinds == nil {
		e.kinds = make(map[kind]*Error)
	}
	known := e.kinds[k]
	if known == nil || now.Sub(known.Last) >= sameEvent {
		said.First, said.Count = now.UTC(), 1
	} else {
		said.First, said.Count = known.First, known.Count+1
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

// latest returns the problems, latest first.
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

// short limits a text, and puts it on one line.
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
