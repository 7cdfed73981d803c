// Package experiment decides questions about the proxy by measuring. Each experiment
// boots the cluster it needs, loads it, and reports the figures and what follows from
// them.
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
	// Cluster is the cluster and Client a session to it.
	Cluster *devcluster.Cluster
	Client  *cassandra.Client
	// Data are what was written last by Load.
	Data *bench.Dataset
	// Admission lets proxies refuse lookups under overload. Experiments on what
	// lookups cost leave it off: a refused one costs nothing.
	Admission bool
	// Profiler lets proxies serve Go's profiler.
	Profiler bool

	// binary is the qosproxy that Start runs.
	binary  string
	lab     *Lab
	layout  Layout
	proxies []*Proxy
	drivers []*bench.Driver
	tables  []string // what ensure has loaded
	worn    bool     // no other experiment may use it
}

// Lab is where experiments are made. Close it.
type Lab struct {
	// Binary is the qosproxy that is measured, and Against another that builds compares it
	// with; may be empty.
	Binary, Against string
	// Long makes experiments take their time: more rounds, longer, more cases.
	Long bool
	// Rounds, Length and Warmup replace how many rounds a comparison has, how long each
	// is, and how long each contender is loaded at most before; 0 keeps them. Stages of
	// ramps keep their length.
	Rounds         int
	Length, Warmup time.Duration
	// Only leaves out the conditions that it does not match; nil measures all.
	Only *regexp.Regexp
	// Targets leaves out the contenders that it does not name; nil measures all.
	Targets []string
	// Seed is that of data and draws.
	Seed uint64
	// Say is told what is being done, in one line; never nil.
	Say func(format string, args ...any)
	// Booting and Loading are told of the boot of a cluster and of rows written;
	// nil tells nobody.
	Booting func(devcluster.Event)
	Loading func(done, all int)
	// Progress is told of the measurement; nil tells nobody.
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

// Layout is a cluster to be booted.
type Layout struct {
	// Nodes and Racks are how many there are; nodes are spread over the racks in
	// turn. VNodes are the tokens of each.
	Nodes, Racks, VNodes int
	// RandomTokens draws tokens as Cassandra does without replica-aware allocation.
	RandomTokens bool
	// Coordinators is how many further nodes there are that do not join the ring.
	Coordinators int
	// YAML are settings of every node, in the words of cassandra.yaml, and JVMArgs
	// arguments of its JVM.
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

// Boot starts a cluster. The caller closes the site.
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

// Close ends everything that the site has started.
func (s *Site) Close() error {
	err := s.clear()
	if s.Client != nil {
		s.Client.Close()
	}
	return errors.Join(err, s.Cluster.Stop())
}

// clear ends drivers and proxies.
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

// Apart has all nodes share one CPU, and this process and the proxies that have been started use
// the others, as if these had hosts of their own: nodes are the bottleneck, and nobody takes what
// they should have. With false all may use all CPUs again. It needs Linux and two CPUs.
func (s *Site) Apart(apart bool) error {
	var errs []error
	for _, n := range s.Cluster.Nodes() {
		errs = append(errs, n.ShareCPU(apart))
	}
	for _, p := range s.proxies {
		if p.cmd.Process.Signal(syscall.Signal(0)) == nil { // else it has ended
			errs = append(errs, devcluster.LeaveCPU(p.PID(), apart))
		}
	}
	return errors.Join(append(errs, devcluster.LeaveCPU(os.Getpid(), apart))...)
}

// Cassandra is how to connect to the cluster.
func (s *Site) Cassandra() cassandra.Config {
	cfg := cassandra.Default()
	cfg.ContactPoints, cfg.Port = s.Cluster.ContactPoints(), s.Cluster.Port()
	cfg.LocalDC = datacenter
	cfg.Logger = slog.New(slog.DiscardHandler)
	return cfg
}

// Load creates the table of a profile with a replication factor and fills it. The
// rows are on disk then, so that every measurement reads them from there.
func (s *Site) Load(ctx context.Context, p *bench.Profile, replication int) error {
	if err := s.write(ctx, p, replication); err != nil {
		return err
	}
	return s.flush(ctx)
}

// ensure is Load for a site that may have the rows from the experiment before:
// written again they would be in a second SSTable.
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

// write is Load without the disk: the rows are in the nodes' memtables then.
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

// flush writes what was loaded to disk.
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

// Serve starts a proxy for the loaded table. Settings are further keys of its
// table, such as "consistency: LOCAL_QUORUM", one for each.
func (s *Site) Serve(ctx context.Context, settings ...string) (*Proxy, error) {
	return s.serve(ctx, connectionsPerHost, settings...)
}

// connectionsPerHost is the default of the proxy.
const connectionsPerHost = 2

// serve is Serve with so many connections to each node.
func (s *Site) serve(ctx context.Context, connections int, settings ...string) (*Proxy, error) {
	return s.serveAt(ctx, "127.0.0.1:0", connections, settings...)
}

// serveAt is serve with the gRPC listener at an address. What the profile does not need
// otherwise is as by default, except that lookups have time to be late.
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

// Start starts a proxy with a whole configuration, in which every listener should
// have port 0 and cassandra.contact_points may be left out, and with variables of
// the environment, such as GOMEMLIMIT=200MiB, besides those of this process.
func (s *Site) Start(ctx context.Context, yaml string, env ...string) (*Proxy, error) {
	env = append(env, "QOSPROXY_CASSANDRA_CONTACT_POINTS="+strings.Join(s.Cluster.ContactPoints(), ","), "QOSPROXY_CASSANDRA_LOCAL_DC="+datacenter)
	proxy, err := startProxy(ctx, s.Cluster, s.binary, yaml, env)
	if err != nil {
		return nil, err
	}
	s.proxies = append(s.proxies, proxy)
	return proxy, nil
}

// lookupTimeout is the deadline of every lookup: long, so that what is late is
// seen as late rather than as failed.
const lookupTimeout = 2 * time.Second

// Open says how targets reach the site; the proxy may be nil.
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

// Meter reads what the nodes and the proxy, which may be nil, spend.
func (s *Site) Meter(p *Proxy) bench.Meter {
	m := bench.Meter{Nodes: func() (map[string]bench.NodeCPU, error) { return NodeCPU(s.Cluster) }}
	if p != nil {
		m.Admin = p.Admin
	}
	return m
}

// NodeCPU returns what each node of a cluster has spent since it began, by address,
// as a bench.Meter wants it.
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
