package merge

import (
	"context"
	"slices"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// sending is one read as the host has it, single or shared.
type sending struct {
	host *host
	// query is what the next Reader is given. Its Settled and Lost call those of parts or, for a
	// single sub-query, told and toldLost.
	query    executor.SubQuery
	parts    []*waiter
	told     func()
	toldLost func()
	priority identity.Priority

	// sentAt is when it was sent, and overdueAt when it becomes a straggler.
	sentAt, overdueAt int64
	// settled is set once the host has settled it, and before that lost if it will not be
	// answered.
	settled, lost bool
}

// start counts a read as in-flight. The mutex is held.
func (h *host) start(q *executor.SubQuery, priority identity.Priority, now int64) *sending {
	s := &sending{host: h, query: *q, told: q.Settled, toldLost: q.Lost, priority: priority, sentAt: now}
	s.query.Settled, s.query.Lost = s.settle, s.lose
	s.overdueAt = now + int64(straggler*h.tables[tableOf(q.Query)].took)
	h.inFlight = append(h.inFlight, s)
	return s
}

// pass sends a single sub-query.
func (s *sending) pass(ctx context.Context) (results []partition.Result, err error) {
	panics := true
	defer func() {
		if panics { // the panic goes on to the caller
			s.settle()
		}
	}()
	results, err = s.perform(ctx)
	panics = false
	return results, err
}

// perform asks the host.
func (s *sending) perform(ctx context.Context) ([]partition.Result, error) {
	r := s.host.reader
	r.metrics.observe(s.query.Query, len(s.query.Keys))
	s.host.sent.Add(1)
	s.host.sentKeys.Add(int64(len(s.query.Keys)))
	results, err := r.cfg.Reader.Read(ctx, &s.query)
	if err == nil {
		s.answered(results)
	}
	return results, err
}

// settle is the Settled of the read. It sends what need not wait any longer.
func (s *sending) settle() {
	h := s.host
	h.mu.Lock()
	if s.settled {
		h.mu.Unlock()
		return
	}
	now := h.reader.now()
	h.end(s)
	if !s.lost {
		table := tableOf(s.query.Query)
		known := h.tables[table]
		known.settled(now-s.sentAt, now)
		h.tables[table] = known
	}
	h.dispatch(now)
	h.mu.Unlock()
	if s.told != nil {
		s.told()
	}
	for _, w := range s.parts {
		w.settle()
	}
}

// lose is the Lost of the read, whose time is then not learned.
func (s *sending) lose() {
	s.host.mu.Lock()
	s.lost = true
	s.host.mu.Unlock()
	if s.toldLost != nil {
		s.toldLost()
	}
	for _, w := range s.parts {
		if w.query.Lost != nil {
			w.query.Lost()
		}
	}
}

// end removes a read from those in-flight. The mutex is held.
func (h *host) end(s *sending) {
	s.settled = true
	if i := slices.Index(h.inFlight, s); i >= 0 {
		h.inFlight = slices.Delete(h.inFlight, i, i+1)
	}
}

// recall ends a read that start has counted and that is not sent.
func (h *host) recall(s *sending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.reader.now()
	h.end(s)
	h.dispatch(now)
}

// answered learns how large the results are.
func (s *sending) answered(results []partition.Result) {
	bytes := 0
	for i := range results {
		bytes += bytesOf(&results[i])
	}
	h := s.host
	h.mu.Lock()
	defer h.mu.Unlock()
	table := tableOf(s.query.Query)
	known := h.tables[table]
	learn(&known.bytes, float64(bytes)/float64(max(len(results), 1)))
	h.tables[table] = known
}

// gain is the weight of one answer in moving averages.
const gain = 1.0 / 8
