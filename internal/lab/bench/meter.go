package bench

import (
	"context"
	"fmt"
	"net/http"
	"runtime/metrics"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Meter reads the CPU time and allocations of Cassandra, the proxy and this process.
type Meter struct {
	// Nodes returns the CPU time of each node since it was started, by address; nil when the nodes are
	// not on this machine.
	Nodes func() (map[string]NodeCPU, error)
	// Admin is the address of the proxy's admin listener, host:port; empty without a proxy.
	Admin string
}

// NodeCPU is the CPU time of a node in seconds.
type NodeCPU struct {
	// Seconds is the total, Compiling the part of the JVM's JIT compilers.
	Seconds, Compiling float64
}

// usage is a reading of all meters, counted from each process's start.
type usage struct {
	nodes                    map[string]NodeCPU
	proxyCPU, clientCPU      float64 // seconds
	proxyAllocs, clientAlloc float64 // bytes
}

// read reads all meters. It fails if one cannot be read, because a cost with a part missing would
// look low.
func (m Meter) read(ctx context.Context) (usage, error) {
	var u usage
	var err error
	if m.Nodes != nil {
		if u.nodes, err = m.Nodes(); err != nil {
			return u, err
		}
	}
	if m.Admin != "" {
		if err := m.readProxy(ctx, &u); err != nil {
			return u, fmt.Errorf("read the metrics of the proxy at %s: %w", m.Admin, err)
		}
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return u, err
	}
	u.clientCPU = (time.Duration(self.Utime.Nano()) + time.Duration(self.Stime.Nano())).Seconds()
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocated)
	u.clientAlloc = float64(allocated[0].Value.Uint64())
	return u, nil
}

// compiled waits until the nodes' JIT compilers use less than a twentieth of a CPU, for at most
// longest. It returns at once when Nodes is nil.
func (m Meter) compiled(ctx context.Context, longest time.Duration) error {
	if m.Nodes == nil {
		return nil
	}
	const look = time.Second
	spent, err := m.compiling()
	for range longest / look {
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
		before := spent
		if spent, err = m.compiling(); spent-before < look.Seconds()/20 {
			break
		}
	}
	return err
}

// compiling returns the CPU seconds that the compilers of all nodes have spent.
func (m Meter) compiling() (seconds float64, err error) {
	nodes, err := m.Nodes()
	for _, n := range nodes {
		seconds += n.Compiling
	}
	return seconds, err
}

func (m Meter) readProxy(ctx context.Context, u *usage) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Admin+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return err
	}
	if u.proxyCPU, err = counter(families, "process_cpu_seconds_total"); err != nil {
		return err
	}
	u.proxyAllocs, err = counter(families, "go_memstats_alloc_bytes_total")
	return err
}

func counter(families map[string]*dto.MetricFamily, name string) (float64, error) {
	f := families[name]
	if f == nil || len(f.GetMetric()) == 0 {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return f.GetMetric()[0].GetCounter().GetValue(), nil
}

// cost returns the mean cost per lookup between two readings, and the CPU time per lookup of each
// node, without its compilers, in milliseconds. The proxy's cost is counted only if target is a
// proxy.
func (m Meter) cost(before, after usage, target string, lookups int64, sent sums) (report.Cost, map[string]float64) {
	if lookups == 0 {
		return report.Cost{}, nil
	}
	n := float64(lookups)
	each := func(v float64) *float64 { v /= n; return &v }
	c := report.Cost{
		ClientCPUMillis:  each((after.clientCPU - before.clientCPU) * 1000),
		ClientAllocBytes: each(after.clientAlloc - before.clientAlloc),
		SubQueries:       each(float64(sent.subQueries)),
		Hedges:           each(float64(sent.hedges)),
		Failovers:        each(float64(sent.failovers)),
	}
	if m.Admin != "" && IsProxy(target) {
		c.ProxyCPUMillis = each((after.proxyCPU - before.proxyCPU) * 1000)
		c.ProxyAllocBytes = each(after.proxyAllocs - before.proxyAllocs)
	}
	if m.Nodes == nil {
		return c, nil
	}
	total, compiling, nodes := 0.0, 0.0, map[string]float64{}
	for address, spent := range after.nodes {
		was := before.nodes[address]
		compiled := spent.Compiling - was.Compiling
		nodes[address] = (spent.Seconds - was.Seconds - compiled) * 1000 / n
		total += nodes[address]
		compiling += compiled
	}
	c.CassandraCPUMillis, c.CompilerCPUMillis = &total, each(compiling*1000)
	return c, nodes
}
