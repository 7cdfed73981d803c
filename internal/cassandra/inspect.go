package cassandra

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
)

const (
	// siteTimeout bounds the requests to one node for one purpose.
	siteTimeout = 5 * time.Second
	// inspectConcurrency is how many nodes are asked at a time.
	inspectConcurrency = 8
)

// inspection is the work of Inspect.
type inspection struct {
	cfg   Config
	types *gocql.RegisteredTypes
	mu    sync.Mutex
	sites map[string]*site
}

// site is a session to exactly one node, so that the origin of each answer is known.
type site struct {
	node
	connecting sync.Once
	// failure is why there is no session, and key the configuration to check for it.
	failure, key string
	// local is the node's row of system.local.
	local row
}

// Inspect asks a cluster for what package doctor examines, with the credentials and TLS of a
// Cluster: the contact points, all nodes of the local datacenter, and tables. It omits what cannot
// be found out; where that matters, the result says why. So the only error is ErrConfig.
func Inspect(ctx context.Context, cfg Config, questions []doctor.Question) (*doctor.Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	cfg.ConnectionsPerHost = 1
	s := &inspection{cfg: cfg, sites: make(map[string]*site)}
	if s.types, err = rawTypes(); err != nil {
		return nil, err
	}
	defer s.close()
	out := new(doctor.Cluster)
	first := s.points(ctx, out)
	if first == nil {
		return out, nil
	}
	s.nodes(ctx, first, out)
	s.gossip(ctx, out)
	s.tables(ctx, first, questions, out)
	return out, nil
}

func (s *inspection) close() {
	for _, site := range s.sites {
		if site.session != nil {
			site.session.Close()
		}
	}
}

// points connects to the contact points and returns the first that answers, preferably one of
// the configured datacenter; nil when none does.
func (s *inspection) points(ctx context.Context, out *doctor.Cluster) *site {
	endpoints := s.cfg.endpoints()
	out.Points = make([]doctor.Point, len(endpoints))
	answered := make([]*site, len(endpoints))
	s.each(len(endpoints), func(i int) { answered[i] = s.point(ctx, endpoints[i], &out.Points[i]) })
	var first *site
	for i, at := range answered {
		if at != nil && (first == nil || out.Points[i].DC == s.cfg.LocalDC && text(first.local["data_center"]) != s.cfg.LocalDC) {
			first = at
		}
	}
	return first
}

// point connects to all addresses of a contact point and returns the first that answers; nil
// when none does.
func (s *inspection) point(ctx context.Context, endpoint string, out *doctor.Point) *site {
	out.Name = endpoint
	name, port, err := net.SplitHostPort(endpoint)
	var addresses []netip.Addr
	if err == nil {
		resolving, cancel := context.WithTimeout(ctx, siteTimeout)
		addresses, err = net.DefaultResolver.LookupNetIP(resolving, "ip", name)
		cancel()
	}
	if err != nil {
		out.Failure, out.Key = "the name does not resolve", "cassandra.contact_points"
		return nil
	}
	var first *site
	for _, a := range addresses {
		addr := net.JoinHostPort(a.Unmap().String(), port)
		out.Addrs = append(out.Addrs, addr)
		at := s.connect(ctx, addr)
		switch {
		case first == nil && at.failure == "":
			first = at
			out.Failure, out.Key, out.DC = "", "", text(at.local["data_center"])
		case first == nil:
			out.Failure, out.Key = at.failure, at.key
		}
	}
	return first
}

// each calls do for 0 to n-1, some at a time, and waits for all.
func (s *inspection) each(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(inspectConcurrency)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait()
}

// byAddress orders addresses by number: 10.0.0.9 before 10.0.0.10.
func byAddress(a, b doctor.Node) int {
	x, _ := netip.ParseAddrPort(a.Addr) // the zero value, before all others, for a name
	y, _ := netip.ParseAddrPort(b.Addr)
	return cmp.Or(x.Compare(y), strings.Compare(a.Addr, b.Addr))
}

// connect returns the site at an address. The first call connects to it.
func (s *inspection) connect(ctx context.Context, addr string) *site {
	s.mu.Lock()
	at := s.sites[addr]
	if at == nil {
		at = &site{node: node{port: s.cfg.Port}}
		s.sites[addr] = at
	}
	s.mu.Unlock()
	at.connecting.Do(func() {
		w := &watcher{log: s.cfg.Logger, incidents: s.cfg.Incidents}
		err := s.open(ctx, at, addr, w)
		if refused := w.failures()[addr]; refused != nil && err != nil {
			err = refused // the driver's own error has lost its type
		}
		if err != nil {
			at.failure, at.key = plainCause(err), remedy(err)
		}
	})
	return at
}

// open opens the session of a site.
func (s *inspection) open(ctx context.Context, at *site, addr string, w *watcher) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout+siteTimeout)
	defer cancel()
	d := driverConfig(s.cfg)
	d.Hosts = []string{addr}
	d.RegisteredTypes = s.types
	d.PageSize = 0
	d.ConnectObserver = w
	// Keep the driver from looking up other nodes.
	d.DisableInitialHostLookup = true
	d.Events.DisableNodeStatusEvents, d.Events.DisableTopologyEvents, d.Events.DisableSchemaEvents = true, true, true
	d.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	var err error
	if at.session, err = newSession(ctx, d, s.cfg.Incidents); err != nil {
		return err
	}
	at.local, err = at.node.local(ctx)
	return err
}

// nodes finds the nodes of the cluster and asks those of the local datacenter.
func (s *inspection) nodes(ctx context.Context, first *site, out *doctor.Cluster) {
	out.Name, out.Partitioner = text(first.local["cluster_name"]), text(first.local["partitioner"])
	out.LocalDC = text(first.local["data_center"])
	peers, err := first.peers(ctx)
	if err == nil {
		var v view
		if v, err = newView(first.local, peers, s.cfg.Port); err == nil {
			for _, h := range v.hosts {
				out.Nodes = append(out.Nodes, doctor.Node{Host: h})
			}
			slices.SortFunc(out.Nodes, byAddress)
		}
	}
	if err != nil {
		out.RingFailure = plainCause(err)
		return
	}
	dcs := map[string]bool{}
	for _, n := range out.Nodes {
		dcs[n.DC] = true
	}
	switch {
	case dcs[s.cfg.LocalDC]:
		out.LocalDC = s.cfg.LocalDC
	case len(dcs) == 1: // the contact point may only coordinate, in a datacenter of its own
		out.LocalDC = sortedKeys(dcs)[0]
	}
	versions := make(map[string]string, len(peers))
	for _, p := range peers {
		versions[text(p["host_id"])] = text(p["schema_version"])
	}
	s.each(len(out.Nodes), func(i int) {
		n := &out.Nodes[i]
		n.Schema = versions[n.ID]
		if n.DC == out.LocalDC {
			s.ask(ctx, n)
		}
	})
}

// ask fills in what one node says of itself.
func (s *inspection) ask(ctx context.Context, n *doctor.Node) {
	n.Asked = true
	at := s.connect(ctx, n.Addr)
	if n.Failure, n.Key = at.failure, at.key; n.Failure != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, siteTimeout)
	defer cancel()
	n.Schema = text(at.local["schema_version"])
	before := time.Now()
	if rows, err := at.rows(ctx, "SELECT toTimestamp(now()) AS moment FROM system.local WHERE key = 'local'"); err == nil && len(rows) == 1 {
		if moment, ok := rows[0]["moment"].(time.Time); ok {
			n.Ahead = ahead(moment, before, time.Now())
		}
	}
	switch rows, err := at.rows(ctx, "SELECT name, value FROM system_views.settings"); {
	case denied(err):
		n.SettingsDenied = true
	case err == nil:
		n.Settings = make(map[string]string)
		for _, r := range rows {
			if name := text(r["name"]); slices.Contains(doctor.Settings, name) {
				n.Settings[name] = text(r["value"])
			}
		}
		n.Direct = direct(n.Settings["dynamic_snitch"], n.Settings["endpoint_snitch"])
	}
	n.NodeLocal = at.nodeLocal(ctx, n.Release)
}

// nodeLocal finds out whether a node of that version answers at NODE_LOCAL. One that does not
// know the level is not asked: it may close the connection.
func (at *site) nodeLocal(ctx context.Context, release string) doctor.Consent {
	word, _, _ := strings.Cut(release, ".")
	if major, err := strconv.Atoi(word); err == nil && major < 5 {
		return doctor.Refused
	}
	switch err := at.session.Query("SELECT key FROM system.local WHERE key = 'local'").Consistency(levelNodeLocal).ExecContext(ctx); {
	case err == nil:
		return doctor.Allowed
	case refusesNodeLocal(err):
		return doctor.Refused
	}
	return doctor.Unknown
}

// ahead returns by how much a clock is ahead at least, negative if it is behind. It showed moment,
// truncated to milliseconds, at some time between before and after.
func ahead(moment, before, after time.Time) time.Duration {
	switch {
	case moment.After(after):
		return moment.Sub(after)
	case moment.Add(time.Millisecond).Before(before):
		return moment.Add(time.Millisecond).Sub(before)
	}
	return 0
}

// denied reports whether the role lacks a permission.
func denied(err error) bool {
	answer, ok := errors.AsType[gocql.RequestError](err)
	return ok && answer.Code() == gocql.ErrCodeUnauthorized
}

// gossip finds out whether ownership is at rest, from the first connected node that answers.
func (s *inspection) gossip(ctx context.Context, out *doctor.Cluster) {
	r, err := ring.New(ring.Topology{Hosts: hostsOf(out)})
	if err != nil {
		out.RingFailure = cmp.Or(out.RingFailure, err.Error())
		return
	}
	for i := range out.Nodes {
		at := s.sites[out.Nodes[i].Addr]
		if at == nil || at.failure != "" {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, siteTimeout)
		rows, err := at.rows(asking, gossipQuery)
		cancel()
		out.GossipDenied, out.GossipMissing, out.GossipFailure = denied(err), missing(err), ""
		if err != nil && !out.GossipDenied && !out.GossipMissing {
			out.GossipFailure = plainCause(err)
		}
		if err == nil {
			out.Moving = restless(r, membersOf(rows))
			return
		}
	}
}

// hostsOf returns the hosts of a cluster.
func hostsOf(c *doctor.Cluster) []ring.Host {
	out := make([]ring.Host, len(c.Nodes))
	for i, n := range c.Nodes {
		out[i] = n.Host
	}
	return out
}

// tables reads the schema and examines the tables of the questions.
func (s *inspection) tables(ctx context.Context, first *site, questions []doctor.Question, out *doctor.Cluster) {
	reading, cancel := context.WithTimeout(ctx, definitionsTimeout)
	d, err := first.readDefinitions(reading)
	cancel()
	if err != nil {
		out.SchemaFailure = plainCause(err)
		return
	}
	all := d.schema()
	out.Keyspaces = d.replications()
	speculation := make(map[string]string)
	for _, list := range []struct {
		rows []row
		name string
	}{{d.tables, "table_name"}, {d.views, "view_name"}} {
		for _, r := range list.rows {
			name := text(r["keyspace_name"]) + "." + text(r[list.name])
			speculation[name] = text(r["speculative_retry"])
			if !strings.HasPrefix(name, "system.") && !strings.HasPrefix(name, "system_") {
				out.Names = append(out.Names, name)
			}
		}
	}
	slices.Sort(out.Names)
	// An error is in RingFailure already; then there are no replicas to ask.
	r, _ := ring.New(ring.Topology{Hosts: hostsOf(out), Keyspaces: out.Keyspaces, LocalDC: out.LocalDC})
	out.Tables = make([]doctor.Table, len(questions))
	for i, q := range questions {
		if definition, ok := all.Table(q.Keyspace, q.Table); ok {
			out.Tables[i] = doctor.Table{Definition: definition, Speculation: speculation[q.Keyspace+"."+q.Table]}
			s.table(ctx, first, r, q, &out.Tables[i])
		}
	}
}

// readable returns the columns of a table that a question names; all when it names none that
// exists.
func readable(q doctor.Question, t *schema.Table) []schema.Column {
	var out []schema.Column
	for _, name := range q.Columns {
		if c, ok := t.Column(name); ok {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return t.Columns
	}
	return out
}
