// Package secret decides what logs, errors and files show in place of a password or a
// token.
package secret

import (
	"fmt"
	"log/slog"
)

// Redacted is what is shown in place of a secret.
const Redacted = "[redacted]"

// Text is a secret text. Printing, logging or marshaling it gives Redacted, also
// where it is a field of another value; only Reveal returns it. The zero value is the
// empty secret. It also shows as Redacted, so that nobody learns that there is none.
type Text struct {
	// A function keeps the text from packages that look into structs by
	// reflection, such as spew or a debugger's printer.
	reveal func() string
}

// New returns the secret s.
func New(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{reveal: func() string { return s }}
}

// Reveal returns the text. Pass it only to code that needs it.
func (t Text) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// Empty reports whether there is no text.
func (t Text) Empty() bool { return t.reveal == nil }

// String returns Redacted.
func (t Text) String() string { return Redacted }

// Format writes Redacted for every verb.
func (t Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue returns Redacted.
func (t Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText returns Redacted, for JSON, YAML and XML alike.
func (t Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
