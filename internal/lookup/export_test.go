package lookup

import (
	"encoding/base64"

	"github.com/qosproxy/qosproxy/internal/coalesce"
)

// Shared returns the reads that can be joined.
func (s *Service) Shared() *coalesce.Group { return s.shared }

// Continued is continued.
func (r *Request) Continued() (*Request, error) { return r.continued() }

// Tagged returns a token of the first key with those values, which need not be any.
func Tagged(r *Request, values []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(append([]byte{pageVersion}, r.tag(0, values)...), values...))
}
