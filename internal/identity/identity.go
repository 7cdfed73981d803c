// Package identity decides which client a request comes from, by its credentials. It
// knows which tables and columns a client may read, and the client's share of the
// proxy.
package identity

import "context"

// Priority is the priority of a client's lookups. Under overload the lowest one,
// Batch, is shed first.
type Priority int8

// The priorities, from the one that is shed last to the one that is shed first.
const (
	// Interactive is for callers with a person waiting.
	Interactive Priority = iota
	// Standard is the default, for services that set none.
	Standard
	// Batch is for jobs that can retry later.
	Batch
)

var priorities = [...]string{"interactive", "standard", "batch"}

// String returns the priority as the configuration writes it; empty for an invalid
// value.
func (p Priority) String() string {
	if p < Interactive || p > Batch {
		return ""
	}
	return priorities[p]
}

// ParsePriority returns the priority of that name; false if there is none.
func ParsePriority(word string) (Priority, bool) {
	for i, p := range priorities {
		if p == word {
			return Priority(i), true
		}
	}
	return 0, false
}

// Client is a caller with its share of the proxy. It is immutable.
type Client struct {
	// Name is from the configuration, so it is safe as a metric label.
	Name string
	// Priority is the priority of all lookups of the client.
	Priority Priority
	// KeysPerSecond is the sustained rate at which the client may ask for keys; 0
	// means no limit.
	KeysPerSecond float64
	// BurstKeys is how many keys it may ask for at once beyond that rate; at least 1
	// if KeysPerSecond is set.
	BurstKeys int
	// MaxConcurrent is the maximum number of its lookups in-flight; 0 means no limit.
	MaxConcurrent int
	// Access is what the client may read of the tables that the configuration lists;
	// nil means all of it. A client of a Registry never has nil.
	Access *Access
}

// Anonymous is every caller if the configuration names no clients.
var Anonymous = &Client{Name: "anonymous", Priority: Standard}

type contextKey struct{}

// NewContext returns a context that carries the client.
func NewContext(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the client that a request comes from; Anonymous, never nil, if
// the context carries none.
func FromContext(ctx context.Context) *Client {
	if c, ok := ctx.Value(contextKey{}).(*Client); ok {
		return c
	}
	return Anonymous
}
