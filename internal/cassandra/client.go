package cassandra

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/incident"
)

// Client is a plain session for administration: data definition and loading.
// It is safe for concurrent use. The proxy's reads go through a Cluster.
type Client struct {
	session   *gocql.Session
	driver    gocql.ClusterConfig
	incidents *incident.Log
}

// Connect opens a session to the cluster. It fails when no contact point
// answers before ctx ends or the connection attempts are used up.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	d := driverConfig(cfg)
	if d.Consistency, err = consistency(cfg.Consistency); err != nil {
		return nil, err
	}
	// Data definition waits for the whole cluster, which takes its time while
	// nodes are joining.
	d.Timeout = max(cfg.RequestTimeout, 30*time.Second)
	d.HostFilter = cfg.hostFilter(cfg.LocalDC)
	s, err := newSession(ctx, d, cfg.Incidents)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(cfg.endpoints(), ", "), err)
	}
	return &Client{session: s, driver: *d, incidents: cfg.Incidents}, nil
}

// Close ends the session. Goroutines of the driver may linger for some
// seconds.
func (c *Client) Close() { c.session.Close() }

// Exec runs one statement. After data definition it returns when all live nodes
// agree on the schema.
func (c *Client) Exec(ctx context.Context, cql string, args ...any) error {
	if err := c.session.Query(cql, args...).ExecContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", headline(cql), err)
	}
	return nil
}

// agreementPatience is how long Define waits for the nodes to agree. A node that missed a
// change of the schema asks for it after a minute.
const agreementPatience = 3 * time.Minute

// Define runs statements of data definition one after the other, and returns when all nodes agree
// on the schema. Nodes learn each other's schema by gossip, once a second. Exec waits for agreement
// after each statement, for at most a minute; Define waits once, and fails after three. One node
// gets all statements, so that later ones see what those before have defined.
func (c *Client) Define(ctx context.Context, statements ...string) error {
	d := c.driver
	d.MaxWaitSchemaAgreement = time.Nanosecond // not after each
	hasty, err := newSession(ctx, &d, c.incidents)
	if err != nil {
		return fmt.Errorf("define: %w", err)
	}
	defer hasty.Close()
	var host gocql.UUID
	if err := hasty.Query("SELECT host_id FROM system.local").ScanContext(ctx, &host); err != nil {
		return fmt.Errorf("define: %w", err)
	}
	for _, cql := range statements {
		if err := hasty.Query(cql).SetHostID(host.String()).ExecContext(ctx); err != nil {
			return fmt.Errorf("%s: %w", headline(cql), err)
		}
	}
	if err := c.awaitAgreement(ctx, host.String()); err != nil {
		return fmt.Errorf("define: %w", err)
	}
	return nil
}

// awaitAgreement waits until the nodes have the same schema, as far as the given host knows: the
// one that ran a change is the first to know that others differ.
func (c *Client) awaitAgreement(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, agreementPatience)
	defer cancel()
	for {
		versions := make(map[string]bool)
		for _, table := range []string{"local", "peers_v2"} {
			rows, err := c.QueryAt(ctx, host, "SELECT schema_version FROM system."+table)
			if err != nil {
				return err
			}
			for _, row := range rows {
				versions[fmt.Sprint(row["schema_version"])] = true
			}
		}
		if len(versions) == 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the nodes have %d versions of the schema: %w", len(versions), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Query runs one statement and returns all its rows, by column name, with the
// driver's Go values: string, int, gocql.UUID, time.Time and so on. A null is
// the zero value of its type.
func (c *Client) Query(ctx context.Context, cql string, args ...any) ([]map[string]any, error) {
	rows, err := c.session.Query(cql, args...).IterContext(ctx).SliceMap()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", headline(cql), err)
	}
	return rows, nil
}

// QueryAt is Query at the host with the given id. It is for virtual tables, of which every node has
// its own.
func (c *Client) QueryAt(ctx context.Context, host, cql string, args ...any) ([]map[string]any, error) {
	rows, err := c.session.Query(cql, args...).SetHostID(host).IterContext(ctx).SliceMap()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", headline(cql), err)
	}
	return rows, nil
}

// ExecNodeLocal runs one statement at NODE_LOCAL at the host with the given id alone, whether or
// not it owns the key. It fails unless the host allows that level.
func (c *Client) ExecNodeLocal(ctx context.Context, host, cql string, args ...any) error {
	if err := c.session.Query(cql, args...).Consistency(levelNodeLocal).SetHostID(host).ExecContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", headline(cql), err)
	}
	return nil
}

// QueryRaw runs one statement and returns the cells of all its rows as
// Cassandra's own bytes, in the order of the columns; nil is null. It fails for a
// column that is a tuple, which the driver takes apart; a Cluster reads those.
func (c *Client) QueryRaw(ctx context.Context, cql string, args ...any) ([][][]byte, error) {
	scan := c.session.Query(cql, args...).IterContext(ctx)
	var rows [][][]byte
	cells := make([]rawCell, len(scan.Columns()))
	dest := make([]any, len(cells))
	for i := range cells {
		dest[i] = &cells[i]
	}
	for scan.Scan(dest...) {
		row := make([][]byte, len(cells))
		for i, cell := range cells {
			if cell != nil {
				row[i] = append([]byte{}, cell...)
			}
		}
		rows = append(rows, row)
	}
	if err := scan.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", headline(cql), err)
	}
	return rows, nil
}

// loadAttempts is how often Load tries one row before it gives up; a loaded
// development cluster times out now and then.
const loadAttempts = 4

// Load runs one statement for each of rows, the arguments of one execution
// each, with at most concurrency (at least 1) in-flight. It stops at the first
// row that still fails after several attempts, so the statement should be
// idempotent.
func (c *Client) Load(ctx context.Context, cql string, rows iter.Seq[[]any], concurrency int) error {
	g, loading := errgroup.WithContext(ctx)
	g.SetLimit(max(concurrency, 1))
	var done atomic.Int64
	for args := range rows {
		if loading.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := c.loadRow(loading, cql, args); err != nil {
				return fmt.Errorf("after %d rows: %w", done.Load(), err)
			}
			done.Add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

func (c *Client) loadRow(ctx context.Context, cql string, args []any) error {
	var err error
	for attempt := range loadAttempts {
		if err = c.Exec(ctx, cql, args...); err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(attempt+1) * 200 * time.Millisecond):
		}
	}
	return err
}

// headline returns the first words of a statement, for messages.
func headline(cql string) string {
	const most = 60
	s := strings.Join(strings.Fields(cql), " ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}
