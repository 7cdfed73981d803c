// Package identity decides which client a request comes from, by the credentials that
// it carries. It knows the tables and columns that a client may read, and its share
// of the proxy.
package identity

import "context"

// Priority is the class of a client's lookups. Under overload the last
// class is shed first.
type Priority int8

// The priorities, from the one that is kept longest to the one that goes first.
const (
	// Interactive is for callers with a person waiting.
	Interactive Priority = iota
	// Standard is for services without a say in the matter; the default.
	Standard
	// Batch is for jobs that can come back later.
	Batch
)

var priorities = [...]string{"interactive", "standard", "batch"}

// String returns the priority as the configuration writes it; empty for a value
// that is none.
func (p Priority) String() string {
	if p < Interactive || p > Batch {
		return ""
	}
	return priorities[p]
}

// ParsePriority returns the priority that a word names; false for any other word.
func ParsePriority(word string) (Priority, bool) {
	for i, p := range priorities {
		if p == word {
			return Priority(i), true
		}
	}
	return 0, false
}

// Client is who asks, with its share of the proxy. It is immutable.
type Client struct {
	// Name is from the configuration, so that it is safe as a label of metrics.
	Name string
	// Priority is the class of all lookups of the client.
	Priority Priority
	// KeysPerSecond is the sustained rate at which the client may ask keys; 0 is
	// without limit.
	KeysPerSecond float64
	// BurstKeys is how many keys it may ask at once beyond that rate; at least 1
	// where KeysPerSecond is set.
	BurstKeys int
	// MaxConcurrent is the most lookups it may have in-flight; 0 is without limit.
	MaxConcurrent int
	// Access is what the client may read of the tables that the configuration
	// lists; nil is all of it. A client of a Registry never has nil.
	Access *Access
}

// Anonymous is everybody where the configuration names no clients.
var Anonymous = &Client{Name: "anonymous", Priority: Standard}

type contextKey struct{}

// NewContext returns a context that carries the client.
func NewContext(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the client that a request comes from; Anonymous, never nil,
// when the context carries none.
func FromContext(ctx context.Context) *Client {
	if c, ok := ctx.Value(contextKey{}).(*Client); ok {
		return c
	}
	return Anonymous
}
