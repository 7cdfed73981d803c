package lookup

import (
	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/executor"
)

// Shared returns the reads that can be joined.
func (s *Service) Shared() *coalesce.Group { return s.shared }

// SharedQuery is what the service compares of a query.
func SharedQuery(q *executor.Query) *coalesce.Query { return sharedQuery(q) }
