package identity

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// auditInterval is the least time between two lines about the same client and
// reason, so that a caller with a wrong token in a loop does not fill the disk,
// and does not hide another one.
const auditInterval = 10 * time.Second

// Refusal is a request that was refused for who sent it. It holds no key, no
// credential and nothing else that a client words freely.
type Refusal struct {
	// Client is the name of the client; empty when it is not known.
	Client string
	// Reason is why.
	Reason Reason
	// Table is keyspace.table if that is a table of the configuration, else empty.
	Table string
	// Peer is the network address that the request came from; empty when the client
	// is known, and on a unix socket.
	Peer string
}

// Audit counts the requests that are refused for who sent them, and logs a sample
// of them. A nil Audit does neither.
type Audit struct {
	refused *prometheus.CounterVec
	log     *slog.Logger

	mu sync.Mutex
	// lines is bounded, since names and reasons are.
	lines map[line]*sample
}

// NewAudit returns an audit whose metric is registered, unless registerer is nil,
// and that logs to log; a nil log discards.
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

// line is what the lines of the log are rationed by.
type line struct {
	client string
	reason Reason
}

// sample is how one line is rationed.
type sample struct {
	next time.Time
	left int
}

// Refused counts a refusal. It logs the first of a client and reason, and then one
// at most every ten seconds with the number of those left out.
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
// since the one before it.
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
