// Package devcluster decides how a real Apache Cassandra cluster runs on this machine for the demo,
// the tests and the benchmarks: one process for each node, with settings that make nodes small and
// quick to start. It leaves nothing behind, however the program ends.
package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrBusy means that another process in this network namespace runs a cluster: both would need the
// same addresses and ports.
var ErrBusy = errors.New("another development cluster is running here")

// ErrStopped means that the cluster has been stopped.
var ErrStopped = errors.New("the development cluster has been stopped")

// install is the software that runs nodes.
type install struct {
	jdk
	classPath string
	archive   archive
}

// Cluster is a running cluster. Its methods are safe for concurrent use, except that calls of
// AddNode and Decommission must not overlap.
type Cluster struct {
	cfg      Config
	dir      string
	started  time.Time
	install  install
	lock     *lock
	watchdog *watchdog

	progress sync.Mutex // one call of Config.Progress at a time

	mu      sync.Mutex
	nodes   []*Node
	next    int // number of the next node
	stopped bool

	stopOnce sync.Once
	stopErr  error
}

// Start boots the cluster and returns when all nodes accept CQL clients and agree on ring and
// schema. On the first run on a machine it also downloads Cassandra and, as root on Debian,
// installs Java and Maven.
//
// If Start fails, or ctx ends before it returns, it stops what it has started and removes
// everything but the nodes' logs; the error names their place. When ctx was cancelled it removes
// the logs too. Once Start has returned, ctx has no influence on the cluster, which runs until Stop
// or the end of this process.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, started: time.Now()}
	if c.lock, err = acquireLock(ctx, lockName); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.lock.release())
	}
	if err := c.boot(ctx); err != nil {
		// A user who cancelled wants no logs.
		if !errors.Is(ctx.Err(), context.Canceled) {
			err = c.keepLogs(err)
		}
		return nil, errors.Join(err, c.Stop())
	}
	c.tell(StepReady, 0, strings.Join(c.ContactPoints(), ", "))
	return c, nil
}

// Prepare finds or downloads Java and Cassandra as Start does, but starts nothing. It is for a
// program that will have no network when it starts a cluster. progress may be nil.
func Prepare(ctx context.Context, progress func(Event)) error {
	c := &Cluster{cfg: Config{Progress: progress, Logger: slog.New(slog.DiscardHandler)}, started: time.Now()}
	return c.prepareInstall(ctx)
}

// prepare does all that is needed before the first process is started.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.prepareInstall(ctx); err != nil {
		return err
	}
	var taken []error
	for number := range len(c.cfg.Nodes) {
		taken = append(taken, checkPorts(number+1))
	}
	if err := errors.Join(taken...); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.cfg.Dir, "qosproxy-devcluster-")
	if err != nil {
		return fmt.Errorf("devcluster: folder for the nodes: %w", err)
	}
	c.dir = dir
	err = c.lock.lend(func(held *os.File) error {
		c.watchdog, err = startWatchdog(dir, held)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("devcluster: %w", err), os.RemoveAll(dir))
	}
	return nil
}

// prepareInstall finds or downloads Java and Cassandra.
func (c *Cluster) prepareInstall(ctx context.Context) error {
	folder, err := cacheFolder()
	if err != nil {
		return err
	}
	tell := func(step Step, detail string) { c.tell(step, 0, detail) }
	fetch := !haveJars(folder)
	tools, maven, err := prerequisites(ctx, jdkFolders, fetch, tell)
	if err != nil {
		return fmt.Errorf("devcluster: %w", err)
	}
	tell(StepJava, fmt.Sprintf("Java %d at %s", tools.major, tools.home()))
	if fetch {
		if err := fetchJars(ctx, maven, tools, folder, tell); err != nil {
			return err
		}
	}
	jars := jarsIn(folder)
	if len(jars) == 0 {
		return fmt.Errorf("devcluster: %s lacks Cassandra's jars: remove that folder to have them downloaded again", folder)
	}
	c.install = install{tools, strings.Join(jars, string(filepath.ListSeparator)), archiveFor(folder, tools)}
	return nil
}

// boot starts the nodes. The nodes of the ring start together: their tokens are given and there is
// nothing to stream, and each is a seed, so that none gives up waiting for another. Coordinators
// follow once there is a ring.
func (c *Cluster) boot(ctx context.Context) error {
	tokens := ringTokens(c.cfg.Nodes, c.cfg.RandomTokens)
	for i, cfg := range c.cfg.Nodes {
		c.nodes = append(c.nodes, newNode(c, i+1, cfg, tokens[i]))
	}
	c.next = len(c.nodes) + 1
	for _, n := range c.nodes {
		if err := n.writeFiles(c.seeds(), n.tokens, c.cfg.YAML); err != nil {
			return fmt.Errorf("devcluster: %w", err)
		}
	}
	for _, coordinators := range []bool{false, true} {
		wave := slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return n.cfg.NoJoin != coordinators })
		if err := c.bootTogether(ctx, wave); err != nil {
			return fmt.Errorf("devcluster: %w", err)
		}
	}
	c.tell(StepSettle, 0, "waiting until all nodes agree on ring and schema")
	if err := c.awaitAgreement(ctx); err != nil {
		return fmt.Errorf("devcluster: %w", err)
	}
	return nil
}

// bootTogether starts nodes and waits until each accepts clients and sees the others.
func (c *Cluster) bootTogether(ctx context.Context, nodes []*Node) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		group.Go(func() error {
			p, err := n.launch()
			if err != nil {
				return err
			}
			c.tell(StepStart, n.number, fmt.Sprintf("%s (%s, %s)", n.Addr(), n.cfg.DC, n.cfg.Rack))
			if err := n.awaitClients(ctx, p); err != nil {
				return err
			}
			c.tell(StepNode, n.number, n.Addr()+" accepts clients")
			if err := n.awaitPeers(ctx, p); err != nil || !n.bootstrap {
				return err
			}
			return n.awaitSeen(ctx, p)
		})
	}
	return group.Wait()
}

// AddNode boots one more node on the next address. It joins the ring with tokens that halve the
// widest ranges and streams its share of the data. AddNode returns when all nodes agree on the new
// ring. If that fails, the node is killed and forgotten.
func (c *Cluster) AddNode(ctx context.Context, cfg NodeConfig) (*Node, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if cfg.NumTokens < 0 {
		return nil, errors.New("devcluster: NodeConfig.NumTokens must not be negative")
	}
	cfg = cfg.withDefaults(c.cfg.NumTokens)
	c.mu.Lock()
	number := c.next
	c.next++
	c.mu.Unlock()
	if err := checkPorts(number); err != nil {
		return nil, err
	}
	var ring []int64
	for _, n := range c.ringNodes() {
		ring = append(ring, n.tokens...)
	}
	n := newNode(c, number, cfg, splitTokens(ring, joiningTokens(cfg)))
	n.bootstrap = true
	if err := n.writeFiles(c.seeds(), n.tokens, c.cfg.YAML); err != nil {
		return nil, fmt.Errorf("devcluster: %w", err)
	}
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	err := c.bootTogether(ctx, []*Node{n})
	if err == nil {
		err = c.awaitAgreement(ctx)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("devcluster: add node %d: %w", number, err), n.dispose())
		c.forget(n)
		return nil, err
	}
	return n, nil
}

// Decommission makes the node stream its data to the others and leave the ring, then kills it.
// After that it is no longer among Nodes.
func (c *Cluster) Decommission(ctx context.Context, n *Node) error {
	if _, err := n.nodetool(ctx, "decommission"); err != nil {
		return fmt.Errorf("devcluster: decommission node %d: %w", n.number, err)
	}
	err := n.dispose()
	c.forget(n)
	return errors.Join(err, c.awaitAgreement(ctx))
}

func (c *Cluster) forget(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(other *Node) bool { return other == n })
}

// Nodes returns the nodes in the order of their numbers, stopped ones included.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// ringNodes returns the nodes that are members of the ring.
func (c *Cluster) ringNodes() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return n.cfg.NoJoin })
}

// ContactPoints returns the addresses, without port, of the nodes of the ring.
func (c *Cluster) ContactPoints() []string {
	var ips []string
	for _, n := range c.ringNodes() {
		ips = append(ips, n.ip)
	}
	return ips
}

// seeds returns the seeds for cassandra.yaml: the nodes that the cluster was booted with.
func (c *Cluster) seeds() []string {
	var seeds []string
	for _, n := range c.ringNodes() {
		if !n.bootstrap {
			seeds = append(seeds, fmt.Sprintf("%s:%d", n.ip, storagePort))
		}
	}
	return seeds
}

// Port is the port at which all nodes serve CQL clients.
func (c *Cluster) Port() int { return cqlPort }

func (c *Cluster) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return ErrStopped
	}
	return nil
}

// tell logs an event and passes it to Config.Progress.
func (c *Cluster) tell(step Step, node int, detail string) {
	c.cfg.Logger.Debug("devcluster", "step", string(step), "node", node, "detail", detail)
	if c.cfg.Progress == nil {
		return
	}
	c.progress.Lock()
	defer c.progress.Unlock()
	c.cfg.Progress(Event{Step: step, Detail: detail, Node: node, Nodes: max(len(c.cfg.Nodes), len(c.Nodes())), Elapsed: time.Since(c.started)})
}
