package devcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/cassandra"
)

const (
	// bootPatience limits the start of a node; a dozen on two cores take a minute.
	bootPatience = 5 * time.Minute
	pollInterval = 50 * time.Millisecond
	// seenPatience limits the wait until other nodes see a node up.
	seenPatience = 10 * time.Second
)

var (
	errExited = errors.New("its process ended while it started")
	errSlow   = fmt.Errorf("it did not start within %v", bootPatience)
)

// awaitClients waits until the node accepts CQL clients.
func (n *Node) awaitClients(ctx context.Context, p *process) error {
	dialer := net.Dialer{Timeout: time.Second}
	return n.await(ctx, p, func(ctx context.Context) bool {
		conn, err := dialer.DialContext(ctx, "tcp", n.Addr())
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// awaitPeers waits until the node has logged that every other running node is up.
func (n *Node) awaitPeers(ctx context.Context, p *process) error {
	return n.await(ctx, p, func(context.Context) bool {
		text := n.logSince(p.logStart)
		for _, other := range n.cluster.Nodes() {
			if other != n && other.running() != nil && !bytes.Contains(text, other.nowUp()) {
				return false
			}
		}
		return true
	})
}

// awaitSeen waits until every other running node has logged that this one is up, before which it
// reads nothing from it. A node that is frozen or starved of CPU may never log it; awaitSeen gives
// up, without an error, after seenPatience.
func (n *Node) awaitSeen(ctx context.Context, p *process) error {
	giveUp := time.Now().Add(seenPatience)
	return n.await(ctx, p, func(context.Context) bool {
		if time.Now().After(giveUp) {
			return true
		}
		for other, start := range p.othersLogStart {
			if other != n && other.running() != nil && !bytes.Contains(other.logSince(start), n.nowUp()) {
				return false
			}
		}
		return true
	})
}

// nowUp returns what other nodes log when they see this one come up.
func (n *Node) nowUp() []byte {
	return fmt.Appendf(nil, "InetAddress /%s:%d is now UP", n.ip, storagePort)
}

// await polls until done returns true. It fails when the process ends, ctx ends or bootPatience is
// over.
func (n *Node) await(ctx context.Context, p *process, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootPatience, errSlow)
	defer cancel()
	for !done(ctx) {
		select {
		case <-p.done:
			return n.bootError(p, errExited)
		case <-ctx.Done():
			return n.bootError(p, context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// awaitAgreement waits until every node of the ring has the tokens of every other in its system
// tables, where clients read them, and all have the same schema.
func (c *Cluster) awaitAgreement(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootPatience, errors.New("the nodes did not agree on ring and schema"))
	defer cancel()
	for {
		err := c.checkAgreement(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster to settle: %w: %w", context.Cause(ctx), err)
		case <-time.After(2 * pollInterval):
		}
	}
}

// member is what the system tables of one node say about another.
type member struct {
	hostID, schema string
	tokens         int
}

// checkAgreement reads the peers of all nodes. The driver rotates through the hosts and does not
// say which one answered, but a node's list of peers shows it: the node itself is missing.
func (c *Cluster) checkAgreement(ctx context.Context) error {
	client, err := cassandra.Connect(ctx, cassandra.Config{
		ContactPoints: c.ContactPoints(), Port: cqlPort, Consistency: "ONE",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	ring := c.ringNodes()
	if len(ring) == 1 {
		rows, err := client.Query(ctx, "SELECT rpc_address AS peer, host_id, schema_version, tokens FROM system.local")
		if err != nil {
			return err
		}
		return c.learn(ring, members(rows))
	}
	asked := make(map[*Node]bool)
	all := make(map[string]member)
	for range 4 * len(ring) {
		rows, err := client.Query(ctx, "SELECT peer, host_id, schema_version, tokens FROM system.peers_v2")
		if err != nil {
			return err
		}
		view := members(rows)
		missing := slices.DeleteFunc(slices.Clone(ring), func(n *Node) bool { return view[n.ip].tokens == n.cfg.NumTokens })
		if len(missing) != 1 {
			return fmt.Errorf("a node knows the tokens of %d of the %d others", len(ring)-len(missing), len(ring)-1)
		}
		asked[missing[0]] = true
		maps.Copy(all, view)
		if err := oneSchema(all); err != nil {
			return err
		}
		if len(asked) == len(ring) {
			return c.learn(ring, all)
		}
	}
	return fmt.Errorf("%d of the %d nodes have answered", len(asked), len(ring))
}

func members(rows []map[string]any) map[string]member {
	view := make(map[string]member, len(rows))
	for _, row := range rows {
		tokens, _ := row["tokens"].([]string)
		view[fmt.Sprint(row["peer"])] = member{fmt.Sprint(row["host_id"]), fmt.Sprint(row["schema_version"]), len(tokens)}
	}
	return view
}

func oneSchema(view map[string]member) error {
	versions := make(map[string]bool)
	for _, m := range view {
		versions[m.schema] = true
	}
	if len(versions) > 1 {
		return fmt.Errorf("there are %d versions of the schema", len(versions))
	}
	return nil
}

// learn stores the host ids in the nodes.
func (c *Cluster) learn(ring []*Node, view map[string]member) error {
	for _, n := range ring {
		known, ok := view[n.ip]
		if !ok {
			return fmt.Errorf("no node tells of %s", n.ip)
		}
		n.mu.Lock()
		n.hostID = known.hostID
		n.mu.Unlock()
	}
	return nil
}
