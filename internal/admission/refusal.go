package admission

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// Reason is why a lookup was refused; the label of metrics.
type Reason string

// The reasons for which a lookup is refused, in the order in which they are looked at.
const (
	// ReasonConcurrency means that the client has as many lookups in-flight as
	// it may.
	ReasonConcurrency Reason = "client_concurrency"
	// ReasonLadder means that the table is late beyond its SLO, and lookups of this
	// priority give way to others.
	ReasonLadder Reason = "ladder"
	// ReasonDeadline means that lookups of the table need longer than is left.
	ReasonDeadline Reason = "deadline"
	// ReasonOverload means that the hosts do not keep up with what is in-flight.
	ReasonOverload Reason = "overload"
	// ReasonMemory means that requests and answers take all the memory that they may.
	ReasonMemory Reason = "memory"
	// ReasonRate means that the client has used up its keys per second.
	ReasonRate Reason = "client_rate"
)

// every has all of them, with what clients are told.
var every = map[Reason]reasons.Reason{
	ReasonConcurrency: reasons.ClientConcurrency,
	ReasonLadder:      reasons.BrownOut,
	ReasonDeadline:    reasons.DeadlineTooShort,
	ReasonOverload:    reasons.Overload,
	ReasonMemory:      reasons.Memory,
	ReasonRate:        reasons.ClientRate,
}

// Refusal is the error of a lookup that may not start.
type Refusal struct { //nolint:errname // A refusal is an outcome; RefusalError would say it twice.
	// Reason is one of the reasons of this package.
	Reason Reason
	// RetryAfter is when to ask again at the earliest; above 0.
	RetryAfter time.Duration
	// Message says what is the matter and what to do; fit for clients.
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// ClientReason implements reasons.Carrier.
func (r *Refusal) ClientReason() reasons.Reason { return every[r.Reason] }
