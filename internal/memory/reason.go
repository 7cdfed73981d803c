package memory

import (
	"strconv"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// Reason is why a call or an answer was evicted or refused.
type Reason int

const (
	// Full means that the budget was spent, and that this was the newest of the connection that
	// held the most.
	Full Reason = iota
	// Slow means that its peer took too long to send or to receive it.
	Slow

	causes

	// Gone means that its connection is closed: nobody is there to be answered.
	Gone
)

// String returns the reason as a word fit for a metric label.
func (r Reason) String() string {
	switch r {
	case Full:
		return "memory"
	case Slow:
		return "slow"
	case Gone:
		return "gone"
	case causes:
	}
	return strconv.Itoa(int(r))
}

// Error is why a call ends before it was read or answered. It is safe to show to
// clients.
type Error struct{ Reason Reason }

// ClientReason implements reasons.Carrier.
func (e *Error) ClientReason() reasons.Reason {
	switch e.Reason {
	case Slow:
		return reasons.RequestTimeout
	case Gone:
		return reasons.Cancelled
	case Full, causes:
	}
	return reasons.Memory
}

// Error says what is wrong and what to do.
func (e *Error) Error() string {
	switch e.Reason {
	case Slow:
		return "the request took too long to arrive, or its answer to be read; send the one whole, and read the other"
	case Gone:
		return "the connection is closed"
	case Full, causes:
	}
	return "the requests and answers in memory take all that they may, and this connection holds the most; " +
		"read the answers, send less at a time, or ask again later"
}
