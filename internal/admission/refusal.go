package admission

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/reasons"
)

// Reason is why a lookup was refused, as in the label of metrics.
type Reason string

// The reasons for which a lookup is refused, in the order in which they are checked.
const (
	ReasonConcurrency Reason = "client_concurrency" // the client has as many in-flight as it may
	ReasonLadder      Reason = "ladder"             // this priority gives way while the table is late
	ReasonDeadline    Reason = "deadline"           // lookups of the table need longer than is left
	ReasonOverload    Reason = "overload"           // the hosts do not keep up with what is in-flight
	ReasonRate        Reason = "client_rate"        // the client has used up its keys per second
	ReasonMemory      Reason = "memory"             // requests and answers take all that they may
)

// every maps each Reason to what clients are told.
var every = map[Reason]reasons.Reason{
	ReasonConcurrency: reasons.ClientConcurrency,
	ReasonLadder:      reasons.BrownOut,
	ReasonDeadline:    reasons.DeadlineTooShort,
	ReasonOverload:    reasons.Overload,
	ReasonRate:        reasons.ClientRate,
	ReasonMemory:      reasons.Memory,
}

// retries is how long to wait after a refusal for load, by priority: low ones leave what
// becomes free first to high ones.
var retries = [priorities]time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second}

// Refusal is the error of a lookup that may not start.
type Refusal struct { //nolint:errname // A refusal is an outcome; RefusalError would say it twice.
	Reason     Reason
	RetryAfter time.Duration // when to ask again at the earliest; above 0
	Message    string        // what is the matter and what to do; fit for clients
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// ClientReason implements reasons.Carrier.
func (r *Refusal) ClientReason() reasons.Reason { return every[r.Reason] }

// refusal returns a Refusal with the RetryAfter of the lookup's priority.
func (p *Permit) refusal(reason Reason, message string) *Refusal {
	return &Refusal{reason, retries[p.class], message}
}
