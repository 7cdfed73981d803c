package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// systemPageRows is the page size of reads of system tables. A schema can have
// tens of thousands of columns.
const systemPageRows = 2000

// node reads the system tables of one node and of no other: what two nodes say
// must not be mixed.
type node struct {
	session *gocql.Session
	// host is nil for a session that knows no other node.
	host *gocql.HostInfo
	port int
}

// rows runs a statement on the node and returns all its rows.
func (n node) rows(ctx context.Context, cql string, args ...any) ([]row, error) {
	query := n.session.Query(cql, args...).Consistency(gocql.One).PageSize(systemPageRows).Prefetch(0)
	if n.host != nil {
		query = query.SetHostID(n.host.HostID())
	}
	rows, err := query.IterContext(ctx).SliceMap()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", headline(cql), err)
	}
	return rows, nil
}

// view returns the cluster as the node describes it.
func (n node) view(ctx context.Context) (view, error) {
	local, err := n.local(ctx)
	if err != nil {
		return view{}, err
	}
	peers, err := n.peers(ctx)
	if err != nil {
		return view{}, err
	}
	return newView(local, peers, n.port)
}

// local returns what the node says of itself.
func (n node) local(ctx context.Context) (row, error) {
	rows, err := n.rows(ctx, "SELECT * FROM system.local WHERE key = 'local'")
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("system.local has %d rows, want 1", len(rows))
	}
	return rows[0], nil
}

// peers returns what the node says of the others.
func (n node) peers(ctx context.Context) ([]row, error) {
	peers, err := n.rows(ctx, "SELECT * FROM system.peers_v2")
	if missing(err) {
		peers, err = n.rows(ctx, "SELECT * FROM system.peers")
	}
	return peers, err
}

// definitions returns system_schema at one version of the schema, and that
// version. It reads again if the schema changes meanwhile.
func (n node) definitions(ctx context.Context, version string) (definitions, string, error) {
	const attempts = 5
	for range attempts {
		d, err := n.readDefinitions(ctx)
		if err != nil {
			return definitions{}, "", err
		}
		now, err := n.schemaVersion(ctx)
		if err != nil {
			return definitions{}, "", err
		}
		if now == version {
			return d, version, nil
		}
		version = now
	}
	return definitions{}, "", fmt.Errorf("the schema changed %d times while it was read", attempts)
}

func (n node) schemaVersion(ctx context.Context) (string, error) {
	rows, err := n.rows(ctx, "SELECT schema_version FROM system.local WHERE key = 'local'")
	if err != nil {
		return "", err
	}
	if len(rows) != 1 {
		return "", errors.New("system.local is empty")
	}
	return text(rows[0]["schema_version"]), nil
}

func (n node) readDefinitions(ctx context.Context) (definitions, error) {
	var d definitions
	for _, q := range []struct {
		into *[]row
		cql  string
	}{
		{&d.keyspaces, "SELECT keyspace_name, replication FROM system_schema.keyspaces"},
		{&d.tables, "SELECT keyspace_name, table_name, id, flags, speculative_retry, read_repair FROM system_schema.tables"},
		{&d.views, "SELECT keyspace_name, view_name, id, speculative_retry FROM system_schema.views"},
		{&d.columns, "SELECT keyspace_name, table_name, column_name, kind, position, clustering_order, type FROM system_schema.columns"},
		{&d.types, "SELECT keyspace_name, type_name, field_names, field_types FROM system_schema.types"},
	} {
		rows, err := n.rows(ctx, q.cql)
		if err != nil {
			return definitions{}, err
		}
		*q.into = rows
	}
	return d, nil
}

// missing reports whether a statement named a table that the node does not have. Only the text
// tells it from other statements that are invalid, such as those that name an unknown column.
func missing(err error) bool {
	answer, ok := errors.AsType[gocql.RequestError](err)
	if !ok || answer.Code() != gocql.ErrCodeInvalid {
		return false
	}
	msg := strings.ToLower(answer.Message())
	return strings.HasPrefix(msg, "unconfigured ") || // before 4.0
		(strings.HasPrefix(msg, "table ") || strings.HasPrefix(msg, "keyspace ")) && strings.HasSuffix(msg, " does not exist")
}
