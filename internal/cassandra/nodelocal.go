package cassandra

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// NodeLocal is the consistency level at which a host answers from its own disk
// and asks nobody, whether or not it owns the key.
const NodeLocal = "NODE_LOCAL"

// levelNodeLocal is the code of NODE_LOCAL in the native protocol. The driver has no name for it,
// but sends any level as its two bytes.
const levelNodeLocal gocql.Consistency = 0x0B

// nodeLocal decides whether a read that asks for NODE_LOCAL may use that level. In doubt it goes at
// LOCAL_ONE.
type nodeLocal struct {
	cluster nodeLocalCluster
	log     *slog.Logger
	policy  nodeLocalPolicy
	reads   nodeLocalReads
	// incidents records panics.
	incidents *incident.Log

	// gate is the gate that reads must pass; nil when none may be at NODE_LOCAL.
	gate atomic.Pointer[gate]
	// closed is why the gate is closed, empty while it is open; nil before the first look.
	closed atomic.Pointer[string]
	// woken ends a pause of the watch.
	woken chan struct{}

	mu    sync.Mutex
	hosts map[string]*localHost
	// unrest is the last sign that ownership is changing.
	unrest unrest

	// watched is used only by the goroutine of watch.
	watched watched
}

// nodeLocalCluster is what nodeLocal needs of a cluster.
type nodeLocalCluster struct {
	// ring returns the snapshot that serves, nil before the first.
	ring func() *ring.Ring
	// refreshed returns when the last refresh began that found the ring right.
	refreshed func() time.Time
	// version returns the version of the schema that serves, empty when it is not known.
	version func() string
	// refresh requests a refresh soon.
	refresh func()
	// gossip returns what a host has heard of all nodes.
	gossip func(context.Context, ring.Host) ([]member, error)
	// probe reads something cheap from a host at NODE_LOCAL.
	probe func(context.Context, ring.Host) error
	// direct reports whether the settings of a host make it answer at LOCAL_ONE from its own disk;
	// nil when nobody needs to know.
	direct func(context.Context, ring.Host) (bool, error)
}

// nodeLocalPolicy protects reads at NODE_LOCAL from wrong answers.
type nodeLocalPolicy struct {
	// allows reports whether the host of a sub-query may be asked at NODE_LOCAL now.
	allows func(*executor.SubQuery) bool
	// confirms reports whether a key with that status is read again at LOCAL_ONE.
	confirms func(partition.Status) bool
}

// safePolicy allows hosts that the gate lets pass, and confirms keys without rows: a host that does
// not own a key has no row of it either.
func (n *nodeLocal) safePolicy() nodeLocalPolicy {
	return nodeLocalPolicy{allows: n.letsPass, confirms: func(s partition.Status) bool { return s == partition.NotFound }}
}

// gate lets reads pass at NODE_LOCAL. It is immutable.
type gate struct {
	// ring is the only snapshot whose plans may pass.
	ring *ring.Ring
	// hosts are the ids of the hosts that allow NODE_LOCAL.
	hosts map[string]struct{}
	// own and direct mark, by index in the ring, the hosts that answer from their own disk alone:
	// own those that do so at NODE_LOCAL, direct those that do so at NODE_LOCAL or, for tables
	// without speculation, at LOCAL_ONE. A nil slice marks none.
	own, direct []bool
	// until is when the gate expires.
	until time.Time
}

// unrest is a sign that ownership is changing. The count reveals a sign that comes while the
// cluster is being surveyed.
type unrest struct {
	count  uint64
	at     time.Time
	reason string
}

func newNodeLocal(cluster nodeLocalCluster, log *slog.Logger) *nodeLocal {
	n := &nodeLocal{
		cluster: cluster, log: log, woken: make(chan struct{}, 1), hosts: make(map[string]*localHost),
		unrest: unrest{reason: "starting"}, watched: watched{told: "starting", apart: make(map[string]apart)},
	}
	n.policy = n.safePolicy()
	return n
}

// letsPass reports whether the gate lets a sub-query pass: the ring that its host was
// chosen from still serves, ownership is at rest, and the host allows NODE_LOCAL.
func (n *nodeLocal) letsPass(q *executor.SubQuery) bool {
	g := n.passage(q.Ring)
	if g == nil {
		return false
	}
	_, ok := g.hosts[q.Host.ID]
	return ok
}

// passage returns the gate if it is open for plans of a ring; otherwise nil.
func (n *nodeLocal) passage(r *ring.Ring) *gate {
	g := n.gate.Load()
	if g == nil || r != g.ring || n.cluster.ring() != g.ring || !time.Now().Before(g.until) {
		return nil
	}
	return g
}

// disturb closes the gate until ownership has been at rest for restPeriod.
func (n *nodeLocal) disturb(reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unrest = unrest{count: n.unrest.count + 1, at: time.Now(), reason: reason}
	n.gate.Store(nil)
}

// open opens the gate unless a sign of unrest has come after last.
func (n *nodeLocal) open(r *ring.Ring, last unrest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unrest.count != last.count {
		return
	}
	n.gate.Store(n.newGate(r, time.Now().Add(gateLease)))
}

// newGate returns a gate from what is known of the hosts. The caller holds mu.
func (n *nodeLocal) newGate(r *ring.Ring, until time.Time) *gate {
	g := &gate{ring: r, hosts: make(map[string]struct{}), until: until}
	for id, h := range n.hosts {
		i, ok := r.Index(id)
		if !ok {
			continue
		}
		if h.verdict == localAllowed {
			g.hosts[id] = struct{}{}
			g.own = marked(g.own, r, i)
		}
		if h.verdict == localAllowed || h.direct {
			g.direct = marked(g.direct, r, i)
		}
	}
	return g
}

// marked marks a host of a ring, and allocates nil hosts.
func marked(hosts []bool, r *ring.Ring, i ring.HostIndex) []bool {
	if hosts == nil {
		hosts = make([]bool, r.Len())
	}
	hosts[i] = true
	return hosts
}

// close closes the gate; it may open at the next look.
func (n *nodeLocal) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gate.Store(nil)
}

// refuse removes a host that refused a read at NODE_LOCAL from the gate at once.
func (n *nodeLocal) refuse(host ring.Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host(host).verdict = localRefused
	g := n.gate.Load()
	if g == nil {
		return
	}
	if _, ok := g.hosts[host.ID]; ok {
		n.gate.Store(n.newGate(g.ring, g.until))
		n.wake()
	}
}

// wake makes the watch look at once.
func (n *nodeLocal) wake() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// localHost is what is known of NODE_LOCAL at one host.
type localHost struct {
	addr    string
	verdict localVerdict
	// direct is whether the host answers at LOCAL_ONE from its own disk alone, as long as the
	// table has no speculation.
	direct bool
	// generation is that of the process that gave the verdict, 0 when unknown.
	generation int
	probed     time.Time
}

type localVerdict int

const (
	localUnknown localVerdict = iota
	localAllowed
	localRefused
)

// host returns what is known of a host. The caller holds mu.
func (n *nodeLocal) host(h ring.Host) *localHost {
	l := n.hosts[h.ID]
	if l == nil {
		l = new(localHost)
		n.hosts[h.ID] = l
	}
	l.addr = h.Addr
	return l
}

// refusal tells which hosts refuse NODE_LOCAL.
type refusal struct {
	hosts            []string
	allowed, unknown int
	// direct counts the refusing hosts that answer directly.
	direct int
}

func (n *nodeLocal) refusal() refusal {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out refusal
	for _, h := range n.hosts {
		switch h.verdict {
		case localUnknown:
			out.unknown++
		case localAllowed:
			out.allowed++
		case localRefused:
			out.hosts = append(out.hosts, h.addr)
			if h.direct {
				out.direct++
			}
		}
	}
	slices.Sort(out.hosts)
	return out
}

// refusesNodeLocal reports whether an error says that the node does not answer at NODE_LOCAL: it
// was not started with the option, or does not know the level.
func refusesNodeLocal(err error) bool {
	answer, ok := errors.AsType[gocql.RequestError](err)
	if !ok {
		return false
	}
	switch answer.Code() {
	case gocql.ErrCodeInvalid:
		return strings.Contains(answer.Message(), NodeLocal)
	case gocql.ErrCodeProtocol:
		return strings.Contains(answer.Message(), "consistency level")
	}
	return false
}

// reasked reports whether keys that failed at NODE_LOCAL are read again at LOCAL_ONE. At NODE_LOCAL
// a node skips the code that turns the failures of a partition, such as too many tombstones, into
// read failures; they come as server errors. A node that refuses work because of overload is not
// asked again.
func reasked(err error) bool {
	answer, ok := errors.AsType[gocql.RequestError](err)
	if !ok {
		return errors.Is(err, gocql.ErrFrameTooBig)
	}
	return reasonOfCode(answer.Code()) != executor.ReasonOverloaded
}
