// Package experiment answers questions about the proxy by measurements. Each experiment boots the
// cluster it needs, loads it, and reports the figures and what follows from them.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// Site is a local cluster with data, and the proxies that serve it.
type Site struct {
	// Cluster is the running cluster, and Client a session to it.
	Cluster *devcluster.Cluster
	Client  *cassandra.Client
	// Data is the data set that Load wrote last.
	Data *bench.Dataset
	// Admission enables admission in proxies that are started. Experiments that measure the cost of
	// lookups leave it off, because a refused lookup costs nothing.
	Admission bool
	// Profiler makes proxies that are started serve Go's profiler.
	Profiler bool

	// binary is the path of the qosproxy that Start runs.
	binary  string
	lab     *Lab
	layout  Layout
	proxies []*Proxy
	drivers []*bench.Driver
	tables  []string // the tables that ensure has loaded
	worn    bool     // set when no other experiment may use the site
}

// Lab has the settings of experiments and runs them. Close it after use.
type Lab struct {
	// Binary is the path of the qosproxy that is measured. Against is that of another one for the
	// experiment builds; may be empty.
	Binary, Against string
	// Long selects the long form of experiments: more and longer rounds, and more cases.
	Long bool
	// Rounds, Length and Warmup override the number of rounds of a comparison, the length of a round
	// and the longest warm-up of a contender; 0 keeps the experiment's own. Stages of ramps keep their
	// length.
	Rounds         int
	Length, Warmup time.Duration
	// Only selects the conditions that it matches; nil selects all.
	Only *regexp.Regexp
	// Targets selects the contenders with these targets; nil selects all.
	Targets []string
	// Seed is the seed of the data and of the draws.
	Seed uint64
	// Say is called with one line for each step; never nil.
	Say func(format string, args ...any)
	// Booting and Loading are called with the progress of booting a cluster and of writing rows; may
	// be nil.
	Booting func(devcluster.Event)
	Loading func(done, all int)
	// Progress is called with the progress of measurements; may be nil.
	Progress func(bench.Progress)

	// kept is the site of the last experiment, whose nodes are warm; may be nil.
	kept *Site
}

// Close removes the cluster that was kept for a further experiment, if any.
func (lab *Lab) Close() error {
	if lab.kept == nil {
		return nil
	}
	site := lab.kept
	lab.kept = nil
	return site.Close()
}

// Layout describes a cluster to be booted.
type Layout struct {
	// Nodes and Racks are their numbers; nodes are assigned to racks in turn. VNodes is the number of
	// tokens of each node.
	Nodes, Racks, VNodes int
	// RandomTokens draws tokens as Cassandra does without replica-aware allocation.
	RandomTokens bool
	// Coordinators is the number of further nodes, which do not join the ring.
	Coordinators int
	// YAML holds settings of cassandra.yaml for every node, and JVMArgs arguments of its JVM.
	YAML    map[string]any
	JVMArgs []string
}

// String describes the layout.
func (l Layout) String() string {
	s := fmt.Sprintf("%d nodes in %d racks, %d vnodes", l.Nodes, l.Racks, l.VNodes)
	if l.Coordinators > 0 {
		s += fmt.Sprintf(", %d coordinators", l.Coordinators)
	}
	return s
}

const datacenter = "dc1"

// Boot starts a cluster and connects to it. The caller closes the site.
func (lab *Lab) Boot(ctx context.Context, l Layout) (*Site, error) {
	var nodes []devcluster.NodeConfig
	for i := range l.Nodes + l.Coordinators {
		nodes = append(nodes, devcluster.NodeConfig{
			DC: datacenter, Rack: fmt.Sprintf("rack%d", i%l.Racks+1), NoJoin: i >= l.Nodes, JVMArgs: l.JVMArgs,
		})
	}
	lab.Say("booting %s", l)
	cluster, err := devcluster.Start(ctx, devcluster.Config{
		Nodes: nodes, NumTokens: l.VNodes, RandomTokens: l.RandomTokens, YAML: l.YAML, Progress: lab.Booting,
	})
	if err != nil {
		return nil, err
	}
	s := &Site{Cluster: cluster, binary: lab.Binary, lab: lab, layout: l}
	if s.Client, err = cassandra.Connect(ctx, s.Cassandra()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close stops everything that the site has started.
func (s *Site) Close() error {
	err := s.clear()
	if s.Client != nil {
		s.Client.Close()
	}
	return errors.Join(err, s.Cluster.Stop())
}

// clear closes all drivers and stops all proxies.
func (s *Site) clear() error {
	var errs []error
	for _, d := range s.drivers {
		d.Close()
	}
	for _, p := range slices.Backward(s.proxies) {
		errs = append(errs, p.Stop())
	}
	s.drivers, s.proxies = nil, nil
	return errors.Join(errs...)
}

// Apart makes all nodes share one CPU, and gives the others to this process and the running
// proxies, as if those had hosts of their own. The nodes are then the bottleneck, and nobody takes
// CPU from them. With false all may use all CPUs again. It needs Linux and two CPUs.
func (s *Site) Apart(apart bool) error {
	var errs []error
	for _, n := range s.Cluster.Nodes() {
		errs = append(errs, n.ShareCPU(apart))
	}
	for _, p := range s.proxies {
		if p.cmd.Process.Signal(syscall.Signal(0)) == nil { // otherwise it has ended
			errs = append(errs, devcluster.LeaveCPU(p.PID(), apart))
		}
	}
	return errors.Join(append(errs, devcluster.LeaveCPU(os.Getpid(), apart))...)
}

// Cassandra returns the configuration of a connection to the cluster.
func (s *Site) Cassandra() cassandra.Config {
	cfg := cassandra.Default()
	cfg.ContactPoints, cfg.Port = s.Cluster.ContactPoints(), s.Cluster.Port()
	cfg.LocalDC = datacenter
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

// Load creates the table of a profile with a replication factor, fills it and flushes it, so that
// every measurement reads its rows from disk.
func (s *Site) Load(ctx context.Context, p *bench.Profile, replication int) error {
	if err := s.write(ctx, p, replication); err != nil {
		return err
	}
	return s.flush(ctx)
}

// ensure is Load that does not write a table again if an earlier experiment has: its rows would
// then be in two SSTables.
func (s *Site) ensure(ctx context.Context, p *bench.Profile, replication int) error {
	table := fmt.Sprint(p.Keyspace, p.Table, p.Options, p.Partitions, p.RowsPerPartition, p.Key, p.KeyPrefix, p.Clustering, p.Columns, replication)
	if slices.Contains(s.tables, table) {
		data, err := bench.NewDataset(p, s.lab.Seed)
		s.Data = data
		return err
	}
	if err := s.Load(ctx, p, replication); err != nil {
		return err
	}
	s.tables = append(s.tables, table)
	return nil
}

// write is Load without the flush: the rows are in the nodes' memtables.
func (s *Site) write(ctx context.Context, p *bench.Profile, replication int) error {
	data, err := bench.NewDataset(p, s.lab.Seed)
	if err != nil {
		return err
	}
	s.Data = data
	s.lab.Say("loading %s.%s: %d partitions, RF %d", p.Keyspace, p.Table, p.Partitions, replication)
	options := fmt.Sprintf("{'class': 'NetworkTopologyStrategy', '%s': %d}", datacenter, replication)
	if err := data.Create(ctx, s.Client, options); err != nil {
		return err
	}
	return data.Load(ctx, s.Client, s.lab.Loading)
}

// flush flushes the loaded keyspace on every node to disk.
func (s *Site) flush(ctx context.Context) error {
	g, flushing := errgroup.WithContext(ctx)
	for i, n := range s.Cluster.Nodes() {
		if n.HostID() == "" {
			continue // holds no data
		}
		g.Go(func() error {
			_, err := s.Cluster.Nodetool(flushing, i, "flush", s.Data.Profile.Keyspace)
			return err
		})
	}
	return g.Wait()
}

// Serve starts a proxy for the loaded table. Each setting is a further key of the table, such as
// "consistency: LOCAL_QUORUM".
func (s *Site) Serve(ctx context.Context, settings ...string) (*Proxy, error) {
	return s.serve(ctx, connectionsPerHost, settings...)
}

// connectionsPerHost is the proxy's default.
const connectionsPerHost = 2

// serve is Serve with this number of connections to each node.
func (s *Site) serve(ctx context.Context, connections int, settings ...string) (*Proxy, error) {
	return s.serveAt(ctx, "127.0.0.1:0", connections, settings...)
}

// serveAt is serve with the gRPC listener at an address. Settings have their defaults unless the
// profile needs others, except that lookups have a long timeout and may return large answers.
func (s *Site) serveAt(ctx context.Context, grpc string, connections int, settings ...string) (*Proxy, error) {
	p := s.Data.Profile
	table := append([]string{fmt.Sprintf("name: %s.%s", p.Keyspace, p.Table), "timeout: 2s", "max_response_bytes: 64MiB"}, settings...)
	if p.RowsPerPartition > 1000 { // the default
		table = append(table, fmt.Sprintf("max_rows_per_key: %d", p.RowsPerPartition))
	}
	return s.Start(ctx, fmt.Sprintf(`cassandra: {contact_points: [%s], local_dc: %s, connections_per_host: %d}
listen: {grpc: "%s", http: "127.0.0.1:0", admin: "127.0.0.1:0", pprof: %t}
shutdown: {delay: 0s}
admission: {enabled: %t}
tables:
  - %s
`, strings.Join(s.Cluster.ContactPoints(), ", "), datacenter, connections, grpc, s.Profiler, s.Admission, strings.Join(table, "\n    ")))
}

// Start starts a proxy with a complete configuration, in which every listener should have port 0
// and cassandra.contact_points may be left out. env adds variables such as GOMEMLIMIT=200MiB to the
// environment of this process.
func (s *Site) Start(ctx context.Context, yaml string, env ...string) (*Proxy, error) {
	env = append(env, "QOSPROXY_CASSANDRA_CONTACT_POINTS="+strings.Join(s.Cluster.ContactPoints(), ","), "QOSPROXY_CASSANDRA_LOCAL_DC="+datacenter)
	proxy, err := startProxy(ctx, s.Cluster, s.binary, yaml, env)
	if err != nil {
		return nil, err
	}
	s.proxies = append(s.proxies, proxy)
	return proxy, nil
}

// lookupTimeout is the timeout of every lookup. It is long, so that a late answer counts as late
// rather than as failed.
const lookupTimeout = 2 * time.Second

// Open returns how targets reach the site. The proxy may be nil.
func (s *Site) Open(p *Proxy) bench.Open {
	o := bench.Open{
		Data: s.Data, Cassandra: s.Cassandra(), Consistency: "LOCAL_ONE",
		SpeculativeRetry: "15ms", HedgeBudget: 0.02, Timeout: lookupTimeout,
	}
	if p != nil {
		o.GRPC, o.HTTP = p.GRPC, p.HTTP
	}
	return o
}

// Meter returns a meter of the nodes and the proxy, which may be nil.
func (s *Site) Meter(p *Proxy) bench.Meter {
	m := bench.Meter{Nodes: func() (map[string]bench.NodeCPU, error) { return NodeCPU(s.Cluster) }}
	if p != nil {
		m.Admin = p.Admin
	}
	return m
}

// NodeCPU returns the CPU time of each node since the cluster was started, by address, as for
// bench.Meter.
func NodeCPU(cluster *devcluster.Cluster) (map[string]bench.NodeCPU, error) {
	out := map[string]bench.NodeCPU{}
	for _, n := range cluster.Nodes() {
		spent, err := n.CPUSeconds()
		if err != nil {
			return nil, err
		}
		compiling, err := n.CompilerSeconds()
		if err != nil {
			return nil, err
		}
		out[n.Addr()] = bench.NodeCPU{Seconds: spent, Compiling: compiling}
	}
	return out, nil
}
