package lookup

import (
	"encoding/base64"

	"github.com/qosproxy/qosproxy/internal/coalesce"
)

// Shared returns the group of reads that other lookups can join.
func (s *Service) Shared() *coalesce.Group { return s.shared }

// Continued exports continued.
func (r *Request) Continued() (*Request, error) { return r.continued() }

// Tagged returns a token of the first key for any bytes as values.
func Tagged(r *Request, values []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(append([]byte{pageVersion}, r.tag(0, values)...), values...))
}
