package status

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// shown are the attributes of log records that an operator sees in a browser. The others are
// stacks, which are too long, and future ones, whose content is not known.
var shown = []string{
	"client", "error", "event", "failures", "file", "for", "from", "host", "hosts", "incident", "keys", "listener",
	"method", "peer", "problem", "reason", "remedy", "state", "table", "was",
}

// stateKey is the attribute of records about a host that has changed its state.
const stateKey = "state"

// hostKey is the attribute that names a host. Problems of different hosts are different.
const hostKey = "host"

// Log returns a handler that passes all records to next, and adds warnings, errors and
// changes of a host's state to the latest problems, whatever the level of next.
func (b *Board) Log(next slog.Handler) slog.Handler { return &logged{next: next, board: b} }

type logged struct {
	next  slog.Handler
	board *Board
	// attrs were added by With, as name=value.
	attrs []string
	// host was added by With, if any.
	host string
	// group is set below a group, whose attributes are not shown.
	group bool
}

// Enabled implements slog.Handler.
func (h *logged) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *logged) Handle(ctx context.Context, r slog.Record) error {
	words, changed, host := slices.Clone(h.attrs), false, h.host
	r.Attrs(func(a slog.Attr) bool {
		changed = changed || a.Key == stateKey
		if word, ok := wordOf(a); ok && !h.group {
			words = append(words, word)
			if a.Key == hostKey {
				host = a.Value.Resolve().String()
			}
		}
		return true
	})
	if r.Level >= slog.LevelWarn || r.Level >= slog.LevelInfo && changed {
		h.board.events.record(levelOf(r.Level), r.Message, host, strings.Join(words, " "), r.Time)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next, with.attrs = h.next.WithAttrs(attrs), slices.Clone(h.attrs)
	for _, a := range attrs {
		if word, ok := wordOf(a); ok && !h.group {
			with.attrs = append(with.attrs, word)
			if a.Key == hostKey {
				with.host = a.Value.Resolve().String()
			}
		}
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *logged) WithGroup(name string) slog.Handler {
	with := *h
	with.next, with.group = h.next.WithGroup(name), h.group || name != ""
	return &with
}

// wordOf returns an attribute as name=value, if it is shown.
func wordOf(a slog.Attr) (string, bool) {
	if !slices.Contains(shown, a.Key) {
		return "", false
	}
	return a.Key + "=" + short(a.Value.Resolve().String()), true
}
