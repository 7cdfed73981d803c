package cassandra

import (
	"context"
	"errors"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Why a host was not asked for its own data, or why its answer may not be that.
var (
	errMoving  = &executor.ReadError{Reason: executor.ReasonRing, Err: errors.New("ownership is not known to be at rest")}
	errRefuses = &executor.ReadError{Reason: executor.ReasonRefused, Err: errors.New("the host cannot be made to answer from its own disk")}
	errLarge   = &executor.ReadError{Reason: executor.ReasonSize, Err: errors.New("the rows may need several pages")}
)

// OwnData returns which hosts of a ring may be asked for their own data of a table, by index, or
// nil and the reason when none may. The slice must not be changed.
func (c *Cluster) OwnData(r *ring.Ring, t *schema.Table) ([]bool, quorum.Outcome) {
	if c.nodeLocal == nil {
		return nil, quorum.Refused
	}
	return c.nodeLocal.ownData(r, t)
}

// OwnDataClosed returns a text that says why no host is asked for its own data; empty when hosts
// that allow it are asked.
func (c *Cluster) OwnDataClosed() string {
	if c.nodeLocal == nil {
		return "it needs a restart of the proxy"
	}
	if refusal := c.nodeLocal.refusal(); refusal.allowed+refusal.direct+refusal.unknown == 0 {
		return "no host allows NODE_LOCAL, or has dynamic_snitch: false and a snitch that knows racks"
	}
	if why := c.nodeLocal.closed.Load(); why != nil {
		return *why
	}
	return "starting"
}

func (n *nodeLocal) ownData(r *ring.Ring, t *schema.Table) ([]bool, quorum.Outcome) {
	g := n.passage(r)
	if g == nil {
		if now := n.refusal(); now.allowed+now.direct+now.unknown == 0 && len(now.hosts) > 0 {
			return nil, quorum.Refused
		}
		return nil, quorum.Ring
	}
	if hosts := g.answering(t); hosts != nil {
		return hosts, quorum.None
	}
	return nil, quorum.Refused
}

// answering returns which hosts answer for a table from their own disk alone, by index; nil for
// none.
func (g *gate) answering(t *schema.Table) []bool {
	if t.NoSpeculation {
		return g.direct
	}
	return g.own
}

// ownLevel returns the level at which the host of a sub-query answers from its own disk alone. Its
// errors are errMoving and errRefuses.
func (c *Cluster) ownLevel(q *executor.SubQuery) (gocql.Consistency, error) {
	if c.nodeLocal == nil {
		return 0, errRefuses
	}
	return c.nodeLocal.ownLevel(q)
}

func (n *nodeLocal) ownLevel(q *executor.SubQuery) (gocql.Consistency, error) {
	g := n.passage(q.Ring)
	if g == nil {
		return 0, errMoving
	}
	if _, ok := g.hosts[q.Host.ID]; ok {
		return levelNodeLocal, nil
	}
	hosts := g.answering(q.Table)
	if i, ok := g.ring.Index(q.Host.ID); ok && hosts != nil && hosts[i] {
		return gocql.LocalOne, nil
	}
	return 0, errRefuses
}

// partOwn reads the host's own data of the keys of one part. It fails for what a coordinator must
// read: pages, between which ownership may change, and what a node does not classify at NODE_LOCAL.
// It checks again after the answer that the host may be asked.
func (r *reading) partOwn(ctx context.Context, p span) error {
	if r.page(p) > 0 {
		return errLarge
	}
	err := r.part(ctx, p)
	switch {
	case refusesNodeLocal(err):
		r.own.refuse(r.Host)
		return errRefuses
	case err != nil && r.level == levelNodeLocal && reasonOf(err) == executor.ReasonOther:
		return &executor.ReadError{Reason: executor.ReasonRefused, Err: err}
	case err != nil:
		return err
	}
	if now, err := r.own.ownLevel(r.SubQuery); err != nil || now != r.level {
		return errMoving
	}
	return nil
}

// localFirst are the snitches that put the node itself before all others when it is a replica.
// SimpleSnitch does not: it keeps the order of the ring.
var localFirst = []string{"GossipingPropertyFileSnitch", "PropertyFileSnitch", "RackInferringSnitch", "Ec2Snitch",
	"Ec2MultiRegionSnitch", "GoogleCloudSnitch", "AzureSnitch", "AlibabaCloudSnitch", "CloudstackSnitch"}

// answersDirectly returns what asks a host whether a coordinator that is a replica reads from
// itself at LOCAL_ONE: its snitch is not dynamic, and puts the node itself first.
func (c *Cluster) answersDirectly() func(context.Context, ring.Host) (bool, error) {
	return func(ctx context.Context, host ring.Host) (bool, error) {
		s := c.session.Load()
		if s == nil {
			return false, errNotConnected
		}
		setting := func(name string) (value string, err error) {
			err = s.driver.Query("SELECT value FROM system_views.settings WHERE name = ?", name).
				Consistency(gocql.One).SetHostID(host.ID).ScanContext(ctx, &value)
			return value, err
		}
		dynamic, err := setting("dynamic_snitch")
		if err != nil {
			return false, err
		}
		snitch, err := setting("endpoint_snitch")
		return direct(dynamic, snitch), err
	}
}

// direct judges that by the values of dynamic_snitch and endpoint_snitch.
func direct(dynamic, snitch string) bool {
	return dynamic == "false" && slices.Contains(localFirst, snitch[strings.LastIndex(snitch, ".")+1:])
}
