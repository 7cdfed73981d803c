package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/suggest"
)

// table returns a table as far as the client of the request may read it. A table
// that it may not read is refused in the same words whether it exists or not.
func (s *Server) table(ctx context.Context, keyspace, name string) (*lookup.Table, error) {
	// A clipped name belongs to no table, and may be repeated in errors.
	keyspace, name = lookup.Clip(keyspace, lookup.MaxName), lookup.Clip(name, lookup.MaxName)
	access := identity.FromContext(ctx).Access
	columns, may := access.Table(keyspace, name)
	t, err := s.deps.Lookup.Table(keyspace, name)
	switch {
	case !may:
		known := ""
		if err == nil {
			known = t.Schema.String()
		}
		refused := &lookup.Error{Reason: reasons.ForbiddenTable, Field: "table", Message: fmt.Sprintf(
			"table %s.%s may not be read by this client%s; its operator can list it at the client in the configuration", keyspace, name, s.hint(ctx, keyspace, name))}
		s.audit(ctx, known, refused)
		return nil, refused
	case err != nil:
		s.audit(ctx, "", err)
		if refused, ok := errors.AsType[*lookup.Error](err); ok && refused.Field == "table" {
			hinted := *refused
			hinted.Message += s.hint(ctx, keyspace, name)
			err = &hinted
		}
		return nil, err
	case access == nil:
		return t, nil
	default:
		return t.Narrow(columns), nil
	}
}

// hint suggests a similar name among the tables that the client may read, and no
// other.
func (s *Server) hint(ctx context.Context, keyspace, name string) string {
	var names []string
	for _, t := range s.tables(ctx) {
		names = append(names, t.Schema.Keyspace+"."+t.Schema.Name)
	}
	return suggest.Hint(keyspace+"."+name, names)
}

// tables returns the tables that the client of the request may read, each as far
// as it may.
func (s *Server) tables(ctx context.Context) []*lookup.Table {
	all, access := s.deps.Lookup.Tables(), identity.FromContext(ctx).Access
	if access == nil {
		return all
	}
	var out []*lookup.Table
	for _, t := range all {
		if columns, may := access.Table(t.Schema.Keyspace, t.Schema.Name); may {
			out = append(out, t.Narrow(columns))
		}
	}
	return out
}

// list returns what tables does, for a request whose answer describes each of them: that costs
// about as much as to read as many keys, and counts towards the share of its client as they do.
func (s *Server) list(ctx context.Context) ([]*lookup.Table, error) {
	tables := s.tables(ctx)
	if err := s.deps.Admission.Charge(identity.FromContext(ctx), len(tables)); err != nil {
		return nil, err
	}
	return tables, nil
}

// mayDescribe refuses a keyspace of which the client of the request may read no
// table. The empty name means all and is accepted.
func (s *Server) mayDescribe(ctx context.Context, keyspace string) error {
	if keyspace == "" || identity.FromContext(ctx).Access.Keyspace(keyspace) {
		return nil
	}
	err := &lookup.Error{Reason: reasons.ForbiddenTable, Field: "keyspace", Message: "this client may read no table of keyspace " + lookup.Clip(keyspace, lookup.MaxName)}
	s.audit(ctx, "", err)
	return err
}

// audit records a request that was refused for what its client may read, and
// ignores all other errors. table is one of the configuration, or empty.
func (s *Server) audit(ctx context.Context, table string, err error) {
	refused, ok := errors.AsType[*lookup.Error](err)
	if !ok || !errors.Is(refused, lookup.ErrForbidden) {
		return
	}
	reason := identity.ForbiddenTable
	switch {
	case refused.Reason == reasons.ForbiddenLevel:
		return // it depends on the table and not on the client
	case refused.Reason == reasons.ForbiddenColumn:
		reason = identity.ForbiddenColumn
	case refused.Field == "keyspace":
		reason = identity.ForbiddenKeyspace
	}
	s.deps.Audit.Refused(ctx, identity.Refusal{Client: identity.FromContext(ctx).Name, Reason: reason, Table: table})
}

// auditUnknown records a request whose client is not known.
func (s *Server) auditUnknown(ctx context.Context, err error, from string) {
	if unknown, ok := errors.AsType[*identity.Error](err); ok {
		s.deps.Audit.Refused(ctx, identity.Refusal{Reason: unknown.Reason, Peer: from})
	}
}
