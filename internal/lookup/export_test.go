package lookup

import "github.com/qosproxy/qosproxy/internal/coalesce"

// Shared returns the reads that can be joined.
func (s *Service) Shared() *coalesce.Group { return s.shared }
