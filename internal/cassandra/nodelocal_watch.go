package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// The pace of the watch over NODE_LOCAL. A node that joins, leaves or moves announces that in
// gossip for at least Cassandra's ring delay, 30 s, before ownership changes; lookInterval and
// gateLease must stay well below that.
const (
	// lookInterval is the pause between two looks at gossip, ±10 %.
	lookInterval = 5 * time.Second
	// lookTimeout bounds the requests to one host.
	lookTimeout = 2 * time.Second
	// gateLease is how long the gate stays open after a look.
	gateLease = 15 * time.Second
	// restPeriod is how long ownership must have been at rest: the time that the
	// slowest node may take to hear that a change is over.
	restPeriod = 10 * time.Second
	// schemaPatience is how long to wait for a host whose schema is not the one that serves. A
	// running host that has missed a change asks for it after a minute.
	schemaPatience = 3 * time.Minute
	// probeInterval is how often a host is asked again whether it allows
	// NODE_LOCAL when nothing says that it has been restarted.
	probeInterval = time.Minute
	// opinions is how many hosts must say that ownership is at rest, and maxOpinions how many are
	// asked at most.
	opinions, maxOpinions = 2, 4
	// probeConcurrency is the most probes in-flight.
	probeConcurrency = 8
)

// watched is the state that one look passes to the next.
type watched struct {
	ring *ring.Ring
	// told is the reason last logged for a closed gate, empty for an open one; refused are the
	// hosts last logged as refusing.
	told, refused string
	// apart are the hosts, by id, whose schema was not the one that serves.
	apart map[string]apart
}

// apart is a schema other than the one that serves, as one process of a host has it, and since when
// it has been seen.
type apart struct {
	schema     string
	generation int
	since      time.Time
}

// watch looks at the cluster until ctx ends.
func (n *nodeLocal) watch(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(n.look(ctx))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-n.woken:
		}
		timer.Stop()
	}
	n.close()
}

// look opens or closes the gate by the state of the cluster, and returns the pause until the next
// look.
func (n *nodeLocal) look(ctx context.Context) time.Duration {
	r := n.cluster.ring()
	if r == nil {
		return time.Second
	}
	if r != n.watched.ring {
		n.watched.ring = r
		n.disturb("the ring is new")
		n.forget(r)
	}
	last := n.lastUnrest()
	local := localHosts(r)
	n.probe(ctx, local)
	n.tellRefusal()
	if now := n.refusal(); now.allowed+now.direct == 0 {
		n.close()
		return jitter(lookInterval)
	}
	reason, err := n.survey(ctx, r, local)
	switch since := time.Since(last.at); {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		n.close()
		n.tell(slog.LevelWarn, "changes of ownership cannot be seen: "+err.Error())
	case reason != "":
		n.disturb(reason)
		n.tell(slog.LevelInfo, reason)
	case since < restPeriod:
		n.tell(slog.LevelInfo, last.reason)
		return min(jitter(lookInterval), restPeriod-since)
	case n.cluster.refreshed().Before(last.at.Add(restPeriod)): // before that, a node may not have heard of the change
		n.close()
		n.cluster.refresh()
		return time.Second
	default:
		n.open(r, last)
		n.tell(slog.LevelInfo, "")
	}
	return jitter(lookInterval)
}

func (n *nodeLocal) lastUnrest() unrest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unrest
}

// localHosts returns the hosts of the local datacenter that own tokens.
func localHosts(r *ring.Ring) []ring.Host {
	var out []ring.Host
	for _, h := range r.Hosts() {
		if len(h.Tokens) > 0 && (r.LocalDC() == "" || h.DC == r.LocalDC()) {
			out = append(out, h)
		}
	}
	return out
}

// forget drops hosts that are not in the ring.
func (n *nodeLocal) forget(r *ring.Ring) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.hosts {
		if _, ok := r.Index(id); !ok {
			delete(n.hosts, id)
		}
	}
}

// survey asks hosts, in random order, whether ownership is at rest, and returns why not. An error
// means that too few of them have answered.
func (n *nodeLocal) survey(ctx context.Context, r *ring.Ring, hosts []ring.Host) (string, error) {
	want := min(opinions, len(hosts))
	var errs []error
	for _, i := range rand.Perm(len(hosts)) {
		if want == 0 || len(errs) > maxOpinions-opinions {
			break
		}
		asking, cancel := context.WithTimeout(ctx, lookTimeout)
		members, err := n.cluster.gossip(asking, hosts[i])
		cancel()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		n.restarted(members)
		if reason := restless(r, members); reason != "" {
			return reason, nil
		}
		if reason := n.divided(r, members); reason != "" {
			return reason, nil
		}
		want--
	}
	if want > 0 {
		return "", explainGossip(errors.Join(errs...))
	}
	return "", nil
}

// divided returns why the replication that serves may not be that of all hosts of a ring, judging
// by the gossip of one node: ALTER KEYSPACE moves ownership, and only the version of the schema
// shows it. Hosts that keep another version, because they are down or run another version of
// Cassandra, are waited for until schemaPatience has passed.
func (n *nodeLocal) divided(r *ring.Ring, members []member) (reason string) {
	version := n.cluster.version()
	for _, m := range members {
		if _, ok := r.Index(m.id); !ok || m.status != "NORMAL" || m.schema == "" || version == "" {
			continue // nothing to compare
		}
		if m.schema == version {
			delete(n.watched.apart, m.id)
			continue
		}
		a := n.watched.apart[m.id]
		if a.schema != m.schema || a.generation != m.generation {
			a = apart{m.schema, m.generation, time.Now()}
			n.watched.apart[m.id] = a
		}
		if time.Since(a.since) < schemaPatience {
			reason = fmt.Sprintf("%s has another schema than the one that serves; it is waited for, up to %v", m.addr, schemaPatience)
		}
	}
	return reason
}

// explainGossip adds what to do about an error of gossip.
func explainGossip(err error) error {
	switch {
	case denied(err):
		return errors.New("the role may not read gossip; GRANT SELECT ON system_views.gossip_info to it")
	case missing(err):
		return errors.New("the nodes have no table system_views.gossip_info; NODE_LOCAL needs Cassandra 5.0")
	}
	return err
}

// restarted forgets the verdict on hosts whose process is not the one that was probed.
func (n *nodeLocal) restarted(members []member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range members {
		h := n.hosts[m.id]
		if h == nil || m.generation <= h.generation {
			continue
		}
		if h.generation != 0 {
			h.verdict, h.direct = localUnknown, false
			n.wake()
		}
		h.generation = m.generation
	}
}

// probe asks the hosts whose verdict is unknown or old whether they allow NODE_LOCAL.
func (n *nodeLocal) probe(ctx context.Context, hosts []ring.Host) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, probeConcurrency)
	for _, h := range hosts {
		if !n.due(h) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer n.incidents.Catch(ctx, "probe of NODE_LOCAL", nil)
			asking, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			err := n.cluster.probe(asking, h)
			direct := false
			if n.cluster.direct != nil && refusesNodeLocal(err) {
				var unknown error
				if direct, unknown = n.cluster.direct(asking, h); unknown != nil {
					n.log.Debug("the settings of a cassandra host cannot be read", "host", h.Addr, "error", unknown)
				}
			}
			n.judge(h, err, direct)
		})
	}
	wg.Wait()
}

func (n *nodeLocal) due(host ring.Host) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(host)
	return h.verdict == localUnknown || time.Since(h.probed) >= probeInterval
}

// judge records the answer to a probe, and whether the host answers directly. An error that says
// nothing about NODE_LOCAL changes nothing.
func (n *nodeLocal) judge(host ring.Host, err error, direct bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.host(host)
	switch {
	case err == nil:
		h.verdict = localAllowed
	case refusesNodeLocal(err):
		h.verdict = localRefused
	default:
		return
	}
	h.probed, h.direct = time.Now(), direct
}

// allowNodeLocal is what to do about hosts that refuse.
const allowNodeLocal = "start the nodes with -Dcassandra.enable_nodelocal_queries=true"

// tellRefusal logs which hosts refuse NODE_LOCAL if that has changed.
func (n *nodeLocal) tellRefusal() {
	now := n.refusal()
	hosts := strings.Join(now.hosts, ", ")
	if hosts == n.watched.refused {
		return
	}
	n.watched.refused = hosts
	switch {
	case hosts == "":
		n.log.Info("no cassandra host refuses NODE_LOCAL any more")
	case now.allowed+now.unknown == 0 && now.direct > 0:
		n.log.Info("no cassandra host allows NODE_LOCAL; those with dynamic_snitch: false are asked for their own data at LOCAL_ONE", "hosts", now.direct)
	case now.allowed+now.unknown == 0:
		n.log.Warn("no cassandra host allows NODE_LOCAL; reads go at LOCAL_ONE, and quorum reads through coordinators", "remedy", allowNodeLocal)
	default:
		n.log.Warn("cassandra hosts refuse NODE_LOCAL and are read at LOCAL_ONE", "hosts", hosts, "remedy", allowNodeLocal)
	}
}

// tell logs why hosts are not asked for their own data, at NODE_LOCAL or for quorum_reads:
// replicas. An empty reason means that they are. It logs changes only.
func (n *nodeLocal) tell(level slog.Level, reason string) {
	if reason == n.watched.told {
		return
	}
	n.watched.told = reason
	n.closed.Store(&reason)
	if reason == "" {
		if now := n.refusal(); now.allowed+now.unknown == 0 {
			n.log.Info("hosts are asked for their own data at LOCAL_ONE")
			return
		}
		n.log.Info("reads go at NODE_LOCAL")
		return
	}
	n.log.Log(context.Background(), level, "hosts are not asked for their own data: reads go at LOCAL_ONE, and quorum reads through coordinators", "reason", reason)
}

// nodeLocalCluster returns c as nodeLocal needs it.
func (c *Cluster) nodeLocalCluster() nodeLocalCluster {
	return nodeLocalCluster{
		ring:      c.Ring,
		refreshed: func() time.Time { return c.Status().LastRefresh },
		version:   func() string { return c.Status().SchemaVersion },
		refresh:   c.kick,
		gossip: func(ctx context.Context, host ring.Host) ([]member, error) {
			s := c.session.Load()
			if s == nil {
				return nil, errNotConnected
			}
			return gossip(ctx, s.driver, host)
		},
		direct: c.answersDirectly(),
		probe: func(ctx context.Context, host ring.Host) error {
			s := c.session.Load()
			if s == nil {
				return errNotConnected
			}
			return s.driver.Query("SELECT key FROM system.local WHERE key = 'local'").
				Consistency(levelNodeLocal).SetHostID(host.ID).ExecContext(ctx)
		},
	}
}
