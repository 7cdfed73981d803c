package devcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

const (
	defaultNumTokens = 16
	defaultHeapMB    = 512
	// maxNodes keeps the JMX ports (7199 and up) clear of well-known ones; no
	// development machine boots more.
	maxNodes = 64
)

// Config describes a cluster. The zero value of every field but Nodes is a
// sensible default.
type Config struct {
	// Nodes are the nodes to boot; node i listens on 127.0.0.(i+1).
	Nodes []NodeConfig
	// NumTokens is the number of vnodes of a node that does not set its own; 16 when 0.
	NumTokens int
	// RandomTokens draws the nodes' tokens at random, as Cassandra does without token allocation. By
	// default they are spread evenly.
	RandomTokens bool
	// YAML holds settings of cassandra.yaml for all nodes, which override the package's own.
	YAML map[string]any
	// HeapMB is the maximum heap of a node in MiB; 512 when 0.
	HeapMB int
	// ShortLived is for clusters that end before well-compiled code pays off, such as those of tests.
	// It is not for measurements. See the constant ShortLived.
	ShortLived bool
	// Progress is called for each step of Start, AddNode and Stop; may be nil. Calls never overlap. It
	// must not block.
	Progress func(Event)
	// Dir is the parent of the cluster's own folder, which Stop removes; the system's temporary folder
	// when empty.
	Dir string
	// Logger logs the events of the cluster; nothing is logged when nil.
	Logger *slog.Logger
}

// NodeConfig describes one node.
type NodeConfig struct {
	// DC and Rack are the node's datacenter and rack; dc1 and rack1 when empty.
	DC, Rack string
	// NumTokens is the node's number of vnodes; the cluster's when 0.
	NumTokens int
	// NoJoin keeps the node out of the ring: a coordinator that owns no data.
	NoJoin bool
	// ExtraYAML holds settings of cassandra.yaml for this node, which override the cluster's.
	ExtraYAML map[string]any
	// JVMArgs are added to the node's command line, after the package's own.
	JVMArgs []string
}

// Racks returns one node for each named rack, all in datacenter dc. A rack that is named twice gets
// two nodes.
func Racks(dc string, racks ...string) []NodeConfig {
	nodes := make([]NodeConfig, len(racks))
	for i, rack := range racks {
		nodes[i] = NodeConfig{DC: dc, Rack: rack}
	}
	return nodes
}

// Step is a stage of booting.
type Step string

// The steps in the order in which Start passes through them.
const (
	StepJava    Step = "java"    // looking for Java and Maven, or installing them
	StepJars    Step = "jars"    // downloading Cassandra, once per machine
	StepStart   Step = "start"   // a node's process has been started
	StepNode    Step = "node"    // a node accepts CQL clients
	StepSettle  Step = "settle"  // waiting until all nodes agree on ring and schema
	StepReady   Step = "ready"   // the cluster can be used
	StepArchive Step = "archive" // saving the class archive that makes later boots quicker, in Stop
)

// Event reports progress to Config.Progress.
type Event struct {
	Step   Step
	Detail string
	// Node is the 1-based number of the node that the event is about, 0 for none.
	Node int
	// Nodes is the number of nodes of the cluster, including those being booted.
	Nodes int
	// Elapsed is the time since Start was called.
	Elapsed time.Duration
}

// withDefaults returns a copy of the configuration with every default filled in,
// or an error that names the field at fault.
func (cfg Config) withDefaults() (Config, error) {
	if len(cfg.Nodes) == 0 {
		return cfg, errors.New("devcluster: Config.Nodes is empty: name at least one node")
	}
	if len(cfg.Nodes) > maxNodes {
		return cfg, fmt.Errorf("devcluster: Config.Nodes has %d nodes, at most %d can share a machine", len(cfg.Nodes), maxNodes)
	}
	if cfg.NumTokens < 0 || cfg.HeapMB < 0 {
		return cfg, errors.New("devcluster: Config.NumTokens and Config.HeapMB must not be negative")
	}
	if cfg.NumTokens == 0 {
		cfg.NumTokens = defaultNumTokens
	}
	if cfg.HeapMB == 0 {
		cfg.HeapMB = defaultHeapMB
	}
	if cfg.Dir == "" {
		cfg.Dir = os.TempDir()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	nodes := make([]NodeConfig, len(cfg.Nodes))
	joining := 0
	for i, node := range cfg.Nodes {
		if node.NumTokens < 0 {
			return cfg, fmt.Errorf("devcluster: Config.Nodes[%d].NumTokens must not be negative", i)
		}
		nodes[i] = node.withDefaults(cfg.NumTokens)
		if !node.NoJoin {
			joining++
		}
	}
	if joining == 0 {
		return cfg, errors.New("devcluster: every node has NoJoin set: at least one must join the ring")
	}
	cfg.Nodes = nodes
	return cfg, nil
}

func (n NodeConfig) withDefaults(numTokens int) NodeConfig {
	if n.DC == "" {
		n.DC = "dc1"
	}
	if n.Rack == "" {
		n.Rack = "rack1"
	}
	if n.NumTokens == 0 {
		n.NumTokens = numTokens
	}
	return n
}
