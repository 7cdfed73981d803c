package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	cqlPort      = 9042
	storagePort  = 7000
	firstJMXPort = 7199
	// stopPatience is how long a node may take to flush and exit before it is killed.
	stopPatience = 30 * time.Second
)

// ErrNotRunning means that the node has no process.
var ErrNotRunning = errors.New("node is not running")

// Node is one node of a Cluster. Its methods may be called from any goroutine.
type Node struct {
	cluster   *Cluster
	cfg       NodeConfig
	number    int // 1-based: node n is on 127.0.0.n
	ip        string
	dir       string
	bootstrap bool // joins a running ring and streams its data from the others
	tokens    []int64

	mu      sync.Mutex
	hostID  string
	process *process // nil before the first start
	spent   time.Duration
	group   cpuGroup
}

// process is one run of a node.
type process struct {
	cmd *exec.Cmd
	// done is closed when the process has ended and been reaped.
	done chan struct{}
	// logStart is the offset in the node's log at which this run begins.
	logStart int64
	// othersLogStart has the sizes of the other nodes' logs when this run started.
	othersLogStart map[*Node]int64
}

func newNode(c *Cluster, number int, cfg NodeConfig, tokens []int64) *Node {
	return &Node{
		cluster: c, cfg: cfg, number: number, tokens: tokens,
		ip:  fmt.Sprintf("127.0.0.%d", number),
		dir: filepath.Join(c.dir, fmt.Sprintf("node%d", number)),
	}
}

// Number is the node's 1-based number, which is the last byte of its address.
func (n *Node) Number() int { return n.number }

// IP is the node's address.
func (n *Node) IP() string { return n.ip }

// Addr is the host:port at which the node serves CQL clients.
func (n *Node) Addr() string { return net.JoinHostPort(n.ip, strconv.Itoa(cqlPort)) }

// DC is the node's datacenter.
func (n *Node) DC() string { return n.cfg.DC }

// Rack is the node's rack.
func (n *Node) Rack() string { return n.cfg.Rack }

// HostID is the UUID that Cassandra gave the node; empty for a node that is not in the ring.
func (n *Node) HostID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hostID
}

// LogPath is the file with the node's log, which Cluster.Stop removes.
func (n *Node) LogPath() string { return filepath.Join(n.dir, "system.log") }

func (n *Node) name() string { return fmt.Sprintf("node%d", n.number) }

func (n *Node) jmxPort() int { return firstJMXPort + n.number - 1 }

// running returns the node's process, or nil when it is not running.
func (n *Node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	select {
	case <-n.process.done:
		return nil
	default:
		return n.process
	}
}

// PID is the id of the node's process, 0 when it is not running.
func (n *Node) PID() int {
	if p := n.running(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// launch starts the node's process and returns at once. It holds the cluster's mutex so that Stop
// finds every started process.
func (n *Node) launch() (*process, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.cluster.stopped {
		return nil, ErrStopped
	}
	if n.running() != nil {
		return nil, fmt.Errorf("start node %d: it is running", n.number)
	}
	output, err := os.OpenFile(n.outputPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	p := &process{done: make(chan struct{}), logStart: n.logSize(), othersLogStart: make(map[*Node]int64)}
	for _, other := range n.cluster.nodes {
		p.othersLogStart[other] = other.logSize()
	}
	p.cmd = n.cluster.watchdog.command(n.name(), n.command(n.cluster.install))
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.Dir = n.dir
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start node %d: %w", n.number, err)
	}
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
	go n.reap(p)
	return p, nil
}

// reap waits for the process to end and adds its CPU time.
func (n *Node) reap(p *process) {
	// The exit status is of no use: the log says why a node ended by itself, and otherwise we killed
	// it.
	_ = p.cmd.Wait()
	n.mu.Lock()
	n.spent += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	n.mu.Unlock()
	n.cluster.watchdog.forget(n.name(), p.cmd.Process.Pid)
	close(p.done)
}

// Start starts a stopped or killed node with its old data. It returns when the node accepts CQL
// clients, sees all other running nodes up, and is seen up by them; it gives up on the last after
// 10 s, since a frozen node does not answer. If it fails or ctx ends before, the node is killed
// again, and the error has the last errors of its log.
func (n *Node) Start(ctx context.Context) error {
	p, err := n.launch()
	if err != nil {
		return fmt.Errorf("devcluster: %w", err)
	}
	if err = n.awaitClients(ctx, p); err == nil {
		err = n.awaitPeers(ctx, p)
	}
	if err == nil {
		err = n.awaitSeen(ctx, p)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("devcluster: %w", err), n.Kill())
	}
	return nil
}

// Stop shuts the node down in good order: it announces the shutdown, flushes and exits. After 30 s
// it is killed. Stop does nothing if the node is not running.
func (n *Node) Stop() error {
	p := n.running()
	if p == nil {
		return nil
	}
	// A paused process must be resumed to handle the signal.
	for _, sig := range []syscall.Signal{syscall.SIGCONT, syscall.SIGTERM} {
		if err := n.signal(sig); err != nil && !errors.Is(err, ErrNotRunning) {
			return err
		}
	}
	select {
	case <-p.done:
		n.saveArchive()
		return nil
	case <-time.After(stopPatience):
		n.cluster.cfg.Logger.Warn("node does not stop, killing it", "node", n.number, "after", stopPatience)
		return n.Kill()
	}
}

// Kill kills the node (kill -KILL) and returns when it has ended. It does nothing if the node is
// not running.
func (n *Node) Kill() error {
	p := n.running()
	if p == nil {
		return nil
	}
	if err := n.signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	<-p.done
	return nil
}

// Pause freezes the node (kill -STOP): its connections stay open, but nothing answers.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume continues a paused node (kill -CONT).
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(sig syscall.Signal) error {
	pid := n.PID()
	if pid == 0 {
		return fmt.Errorf("%v node %d: %w", sig, n.number, ErrNotRunning)
	}
	if err := syscall.Kill(pid, sig); errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%v node %d: %w", sig, n.number, ErrNotRunning)
	} else if err != nil {
		return fmt.Errorf("%v node %d: %w", sig, n.number, err)
	}
	return nil
}

// CPUSeconds returns the CPU time (user and system) that the node has spent since the cluster was
// started, over all its restarts, in seconds.
func (n *Node) CPUSeconds() (float64, error) {
	total := func() time.Duration {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.spent
	}
	p := n.running()
	if p == nil {
		return total().Seconds(), nil
	}
	before := total()
	now, err := processCPU(p.cmd.Process.Pid)
	if err != nil { // it is being reaped, most likely
		select {
		case <-p.done:
		case <-time.After(time.Second):
		}
	}
	select {
	case <-p.done: // the total includes it
		return total().Seconds(), nil
	default:
	}
	if err != nil {
		return 0, fmt.Errorf("CPU time of node %d: %w", n.number, err)
	}
	return (before + now).Seconds(), nil
}

// CompilerSeconds returns the CPU time that the JIT compilers of the running process have spent, in
// seconds; 0 when it is not running, and on systems other than Linux, which do not report it.
func (n *Node) CompilerSeconds() (float64, error) {
	pid := n.PID()
	if pid == 0 {
		return 0, nil
	}
	spent, err := compilerCPU(pid)
	if err != nil {
		return 0, fmt.Errorf("CPU time of the compilers of node %d: %w", n.number, err)
	}
	return spent.Seconds(), nil
}

// LimitCPU limits the node's process to a fraction of one CPU with a control group: 0.05 is 5 % of
// one, 2 is two CPUs, and 0 lifts the limit. The smallest is 0.01. Below 0.1 the process runs for
// some milliseconds in every 100 and is stopped for the rest; from 0.1 on the period is 10 ms. The
// limit ends with the process. LimitCPU needs Linux and a writable cpu controller, which usually
// means root.
//
// The node gets its share even on a busy machine: it counts as much as eight threads of others.
func (n *Node) LimitCPU(fraction float64) error { return n.limitCPU(fraction, false) }

// YieldCPU is LimitCPU for a node that gives way: where others want the CPUs, it gets next to
// nothing.
func (n *Node) YieldCPU(fraction float64) error { return n.limitCPU(fraction, true) }

func (n *Node) limitCPU(fraction float64, yield bool) error {
	if fraction != 0 && (fraction < 0.01 || fraction > 1024) {
		return fmt.Errorf("limit CPU of node %d to %g: give a share of one CPU, at least 0.01, or 0 for none", n.number, fraction)
	}
	pid := n.PID()
	if pid == 0 {
		return fmt.Errorf("limit CPU of node %d: %w", n.number, ErrNotRunning)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.group == "" {
		if fraction == 0 {
			return nil
		}
		group, err := newCPUGroup(fmt.Sprintf("qosproxy-devcluster-%d-%s", os.Getpid(), n.name()))
		if err != nil {
			return fmt.Errorf("limit CPU of node %d: %w", n.number, err)
		}
		if err := n.cluster.watchdog.addGroup(string(group)); err != nil {
			return errors.Join(err, group.remove())
		}
		n.group = group
	}
	if err := n.group.limit(pid, fraction, yield); err != nil {
		return fmt.Errorf("limit CPU of node %d: %w", n.number, err)
	}
	return nil
}

// ShareCPU restricts the node's process to one CPU, the same for all nodes; with false it may use
// all CPUs of this process again. The restriction ends with the process. Unlike under LimitCPU,
// such nodes are slow because they are busy and are never stopped. ShareCPU needs Linux and two
// CPUs.
func (n *Node) ShareCPU(share bool) error {
	pid := n.PID()
	if pid == 0 {
		return fmt.Errorf("CPU of node %d: %w", n.number, ErrNotRunning)
	}
	part := func(cpus []int) []int { return cpus[:1] }
	if err := keep(pid, share, part); err != nil {
		return fmt.Errorf("CPU of node %d: %w", n.number, err)
	}
	return nil
}

// LeaveCPU keeps a process, such as this one, off the CPU of Node.ShareCPU; with false it may use
// all CPUs of this process again. It needs Linux and two CPUs.
func LeaveCPU(pid int, leave bool) error {
	part := func(cpus []int) []int { return cpus[1:] }
	if err := keep(pid, leave, part); err != nil {
		return fmt.Errorf("CPUs of process %d: %w", pid, err)
	}
	return nil
}

// keep restricts a process to a part of this process's CPUs, or to all of them if some is false.
func keep(pid int, some bool, part func(cpus []int) []int) error {
	cpus, err := ownCPUs()
	if err != nil {
		return err
	}
	if some {
		if len(cpus) < 2 {
			return fmt.Errorf("this process may use %d CPU; it takes two, of which the nodes get one", len(cpus))
		}
		cpus = part(cpus)
	}
	return pin(pid, cpus)
}

// dispose kills the node and removes its control group.
func (n *Node) dispose() error {
	err := n.Kill()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.group != "" {
		err = errors.Join(err, n.group.remove())
		n.group = ""
	}
	return err
}
