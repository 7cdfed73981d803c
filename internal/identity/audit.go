package identity

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// auditInterval is the minimum time between two lines about the same client and
// reason. A caller that loops with a wrong token then does not fill the disk, and
// does not hide another one.
const auditInterval = 10 * time.Second

// Refusal is a request that was refused because of who sent it. It contains no key,
// no credential and nothing else that a client words freely.
type Refusal struct {
	// Client is the name of the client; empty if it is not known.
	Client string
	// Reason is the cause.
	Reason Reason
	// Table is keyspace.table if the configuration lists that table, otherwise
	// empty.
	Table string
	// Peer is the network address that the request came from; empty if the client
	// is known, and on a unix socket.
	Peer string
}

// Audit counts requests that are refused because of who sent them, and logs a
// sample of them. A nil Audit does neither.
type Audit struct {
	refused *prometheus.CounterVec
	log     *slog.Logger

	mu sync.Mutex
	// lines is bounded, since names and reasons are.
	lines map[line]*sample
}

// NewAudit returns an Audit. It registers its metric unless registerer is nil, and
// logs to log; a nil log discards.
func NewAudit(registerer prometheus.Registerer, log *slog.Logger) *Audit {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &Audit{refused: newRefused(), log: log, lines: map[line]*sample{}}
	if registerer != nil {
		registerer.MustRegister(a.refused)
	}
	return a
}

// line identifies log lines that share one limit.
type line struct {
	client string
	reason Reason
}

// sample is the limit of one line: when the next may be written, and how many were
// left out.
type sample struct {
	next time.Time
	left int
}

// Refused counts a refusal. It logs the first of each client and reason, and then
// at most one every ten seconds with the number of those left out. a may be nil.
func (a *Audit) Refused(ctx context.Context, r Refusal) {
	if a == nil {
		return
	}
	a.refused.WithLabelValues(string(r.Reason)).Inc()
	omitted, due := a.due(line{r.Client, r.Reason}, time.Now())
	if !due {
		return
	}
	attributes := []slog.Attr{slog.String("client", r.Client), slog.String("reason", string(r.Reason))}
	if r.Table != "" {
		attributes = append(attributes, slog.String("table", r.Table))
	}
	if r.Peer != "" {
		attributes = append(attributes, slog.String("peer", r.Peer))
	}
	if omitted > 0 {
		attributes = append(attributes, slog.Int("omitted", omitted))
	}
	a.log.LogAttrs(ctx, slog.LevelWarn, "request refused", attributes...)
}

// due reports whether a line may be written now, and how many have been left out
// since the last one.
func (a *Audit) due(l line, now time.Time) (omitted int, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lines[l]
	if s == nil {
		s = &sample{}
		a.lines[l] = s
	}
	if now.Before(s.next) {
		s.left++
		return 0, false
	}
	omitted, s.left, s.next = s.left, 0, now.Add(auditInterval)
	return omitted, true
}
