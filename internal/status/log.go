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
	// attrs are what With, or the record being handled, has added, as name=value.
	attrs []string
	// host is the host among them, if any.
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
	said, changed := h.clone(), false
	r.Attrs(func(a slog.Attr) bool {
		changed = changed || a.Key == stateKey
		said.add(a)
		return true
	})
	if r.Level >= slog.LevelWarn || r.Level >= slog.LevelInfo && changed {
		h.board.events.record(levelOf(r.Level), r.Message, said.host, strings.Join(said.attrs, " "), r.Time)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.clone()
	with.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		with.add(a)
	}
	return with
}

// WithGroup implements slog.Handler.
func (h *logged) WithGroup(name string) slog.Handler {
	with := h.clone()
	with.next, with.group = h.next.WithGroup(name), h.group || name != ""
	return with
}

func (h *logged) clone() *logged {
	other := *h
	other.attrs = slices.Clone(h.attrs)
	return &other
}

// add adds an attribute, if it is shown.
func (h *logged) add(a slog.Attr) {
	if h.group || !slices.Contains(shown, a.Key) {
		return
	}
	text := a.Value.Resolve().String()
	h.attrs = append(h.attrs, a.Key+"="+short(text))
	if a.Key == hostKey {
		h.host = text
	}
}
