package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// The load of the fault tests.
const (
	faultRate = 50 // lookups per second
	faultKeys = 50 // keys per lookup
)

// The lengths of a window under a fault, and of the one after it, which is also the one before the
// next fault: in the long run three times as long.
var (
	faultLength = time.Duration(min(scale(10), 30)) * time.Second
	afterLength = time.Duration(min(scale(6), 18)) * time.Second
)

// The promises under a fault.
const (
	promisedTail  = 25 * time.Millisecond // increase of p99 over that before, or that itself if it is more
	promisedExtra = 0.05                  // share of sub-queries beyond those of the plans
	savedUp       = 20                    // and the hedges of a lookup that 1,000 saved keys allow
	promisedThaw  = time.Second           // from SIGCONT to an answer
)

// TestFaults boots three nodes in one rack and breaks them, one at a time, under load through a
// separate qosproxy process. The load has no coordinated omission: a latency counts from the moment
// a lookup was due.
func TestFaults(t *testing.T) {
	cluster, client := boot(t, devcluster.Config{Nodes: nodes("dc1", 3, 1, 16)})
	binary := build(t)
	t.Run("placement is Cassandra's", func(t *testing.T) { comparePlacement(t, cluster, client, "dc1") })
	t.Run("the doctor finds what is planted", func(t *testing.T) { testDoctor(t, binary, cluster, client) })
	d := createData(t, client)
	t.Run("shadow finds lies and nothing else", func(t *testing.T) { testShadow(t, binary, cluster, client) })
	p := start(t, binary, cluster, "")

	rest := warmUp(t, p, d)
	victim := cluster.Nodes()[2]
	t.Run("Prometheus and the dashboard", func(t *testing.T) { testPrometheus(t, p, d, victim) })
	t.Run("a frozen node", func(t *testing.T) {
		tries(t, func() window {
			w := frozen(t, p, d, victim, rest)
			rest = w.after
			return w
		})
	})
	t.Run("a slow node", func(t *testing.T) {
		tries(t, func() window {
			before := rest
			require.NoError(t, victim.LimitCPU(0.05))
			during := run(t, p, d, faultLength)
			require.NoError(t, victim.LimitCPU(0))
			rest = warmUp(t, p, d)
			return window{before: before, during: during}
		})
	})
	t.Run("a killed node", func(t *testing.T) {
		tries(t, func() window {
			w := window{before: rest}
			var load sync.WaitGroup
			load.Go(func() { w.during = run(t, p, d, faultLength) })
			time.Sleep(faultLength / 6)
			require.NoError(t, victim.Kill())
			time.Sleep(faultLength / 6)
			require.NoError(t, victim.Start(t.Context()))
			load.Wait()
			w.after = run(t, p, d, afterLength)
			rest = w.after
			return w
		})
	})
	p.stop(t)
	settled := start(t, binary, cluster, "defaults: {speculative_retry: NONE}\n")
	t.Run("control: without hedging a frozen node is felt", func(t *testing.T) {
		warmUp(t, settled, d)
		var during *report
		var load sync.WaitGroup
		load.Go(func() { during = run(t, settled, d, 10*time.Second) })
		// Each freeze catches the few lookups that begin before the node is suspect, which then wait for
		// the thaw. The nodes take turns, because one that was just slow is not asked at all.
		for i := range 6 {
			n := cluster.Nodes()[i%3]
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, n.Pause())
			time.Sleep(time.Second)
			require.NoError(t, n.Resume())
		}
		load.Wait()
		t.Logf("%s", during)
		assert.Greater(t, during.quantile(1), 125*time.Millisecond, "if nothing waits here, the test above proves nothing")
	})
	settled.stop(t)
	t.Run("keys of several statements survive a killed node", func(t *testing.T) { testSeveralStatements(t, cluster, client) })
	t.Run("the process starts while the cluster is down", func(t *testing.T) { testStartsDown(t, binary, cluster) })
}

// frozen freezes a node for the whole window, and thaws it.
func frozen(t *testing.T, p *process, d *dataset, victim *devcluster.Node, before *report) window {
	direct := connect(t, victim.IP())
	w := window{before: before}
	require.NoError(t, victim.Pause())
	w.during = run(t, p, d, faultLength)
	require.NoError(t, victim.Resume())
	thawed := time.Now()
	awaitAnswer(t, direct)
	w.thaw = time.Since(thawed)
	w.after = run(t, p, d, afterLength)
	return w
}

// awaitAnswer waits until a node answers a query.
func awaitAnswer(t *testing.T, direct *cassandra.Client) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := direct.Query(ctx, "SELECT release_version FROM system.local")
		cancel()
		if err == nil {
			return
		}
		require.NoError(t, t.Context().Err())
		time.Sleep(5 * time.Millisecond)
	}
}

// window is a fault under load.
type window struct {
	before, during *report
	after          *report       // nil if it was not measured
	thaw           time.Duration // from SIGCONT to an answer; 0 if nothing was frozen
}

// broken returns the promises that a window did not keep.
func (w window) broken() []string {
	var broken []string
	if w.during.failed > 0 {
		broken = append(broken, fmt.Sprintf("%d lookups with a key that was not answered: %v", w.during.failed, w.during.reasons))
	}
	if w.after != nil && w.after.failed > 0 {
		broken = append(broken, fmt.Sprintf("%d lookups failed afterwards: %v", w.after.failed, w.after.reasons))
	}
	// On a machine that is slow even without a fault, a starting JVM takes more from everybody.
	before := w.before.quantile(0.99)
	if p99, most := w.during.quantile(0.99), before+max(promisedTail, before); p99 > most {
		broken = append(broken, fmt.Sprintf("p99 %s, promised %s", p99, most))
	}
	if most := promisedExtra + savedUp/float64(w.during.groups); w.during.extra() > most {
		broken = append(broken, fmt.Sprintf("%.1f %% extra sub-queries, promised %.1f %%", w.during.extra()*100, most*100))
	}
	if w.thaw > promisedThaw {
		broken = append(broken, fmt.Sprintf("%s from the thaw to an answer, promised %s: a node that thaws must not drown in what was abandoned", w.thaw, promisedThaw))
	}
	return broken
}

// tries checks the promises in windows under a fault. The machine runs the proxy, its load and all
// nodes, so other work disturbs the measurement: one window of three has to keep all promises.
func tries(t *testing.T, measure func() window) {
	t.Helper()
	var broken []string
	for range 3 {
		w := measure()
		t.Logf("before: %s", w.before)
		t.Logf("during: %s", w.during)
		if w.after != nil {
			t.Logf("after:  %s", w.after)
		}
		if w.thaw > 0 {
			t.Logf("the node answered %s after the thaw", w.thaw.Round(time.Millisecond))
		}
		if broken = w.broken(); len(broken) == 0 {
			return
		}
		t.Logf("not kept: %s", strings.Join(broken, "; "))
	}
	assert.Empty(t, broken, "promises not kept in the last window")
}

// report is the result of a window of load.
type report struct {
	mu         sync.Mutex
	latencies  []time.Duration
	failed     int
	reasons    map[string]int
	groups     int
	subQueries int
}

func (r *report) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(r.latencies))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// extra returns the number of sub-queries beyond those of the plans, relative to the latter.
func (r *report) extra() float64 {
	return float64(r.subQueries-r.groups) / float64(max(r.groups, 1))
}

func (r *report) String() string {
	return fmt.Sprintf("%d lookups, %d failed, p50 %s p95 %s p99 %s max %s, %.2f groups, %.1f %% extra sub-queries %v",
		len(r.latencies), r.failed, r.quantile(0.5).Round(100*time.Microsecond), r.quantile(0.95).Round(100*time.Microsecond),
		r.quantile(0.99).Round(100*time.Microsecond), r.quantile(1).Round(100*time.Microsecond),
		float64(r.groups)/float64(max(len(r.latencies), 1)), r.extra()*100, r.reasons)
}

// run loads a proxy for length, at a fixed rate whatever it answers.
func run(t *testing.T, p *process, d *dataset, length time.Duration) *report {
	t.Helper()
	r := &report{reasons: map[string]int{}}
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	var lookups sync.WaitGroup
	begin := time.Now()
	for i := range int(length.Seconds() * faultRate) {
		due := begin.Add(time.Duration(i) * time.Second / faultRate)
		time.Sleep(time.Until(due))
		req := &qosproxyv1.BatchGetRequest{Keyspace: "data", Table: "plain"}
		for range faultKeys {
			req.Keys = append(req.Keys, textKey(plainKey(random.IntN(d.keys))))
		}
		lookups.Go(func() { r.lookup(p.grpc, req, due) })
	}
	lookups.Wait()
	return r
}

// lookup makes a lookup that is due at a moment.
func (r *report) lookup(client qosproxyv1.QosProxyClient, req *qosproxyv1.BatchGetRequest, due time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	resp, err := client.BatchGet(ctx, req)
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latencies = append(r.latencies, took)
	if err != nil {
		r.failed++
		r.reasons[err.Error()]++
		return
	}
	r.groups += int(resp.GetStats().GetGroups())
	r.subQueries += int(resp.GetStats().GetSubQueries())
	for _, k := range resp.GetResults() {
		if k.GetStatus() != qosproxyv1.KeyStatus_KEY_STATUS_FOUND {
			r.failed++
			r.reasons[k.GetStatus().String()+" "+k.GetError()]++
			return
		}
	}
}

// warmUp loads the nodes until their code is nearly compiled, and returns the last report.
func warmUp(t *testing.T, p *process, d *dataset) (last *report) {
	t.Helper()
	for range 6 {
		last = run(t, p, d, 5*time.Second)
		t.Logf("warm-up: %s", last)
		if last.failed == 0 && last.quantile(0.99) < 40*time.Millisecond {
			break
		}
	}
	return last
}

// product is the folder of the tested module. Built there, the proxy has the versions of its own
// go.mod.
const product = "../../.."

// build builds qosproxy and returns its path.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "qosproxy")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/qosproxy")
	cmd.Dir = product
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// process is a running qosproxy serve.
type process struct {
	cmd   *exec.Cmd
	grpc  qosproxyv1.QosProxyClient
	admin string
	log   string
}

// start runs qosproxy on a cluster and waits until it is alive.
func start(t *testing.T, binary string, cluster *devcluster.Cluster, more string) *process {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "qosproxy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(more+fmt.Sprintf(`
cassandra: {contact_points: [%s]}
listen: {grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"}
shutdown: {delay: 200ms}
admission: {enabled: false}
tables: [{name: data.plain}]
`, strings.Join(cluster.ContactPoints(), ", "))), 0o600))
	p := &process{cmd: exec.Command(binary, "serve", "--config", file), log: filepath.Join(dir, "log")}
	log, err := os.Create(p.log)
	require.NoError(t, err)
	defer log.Close()
	p.cmd.Stderr = log
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		if t.Failed() {
			data, _ := os.ReadFile(p.log)
			t.Logf("log of qosproxy:\n%s", data)
		}
	})
	require.Eventually(t, func() bool { return p.address("grpc") != "" && p.address("admin") != "" }, patience, 10*time.Millisecond)
	p.grpc, p.admin = dial(t, p.address("grpc")), "http://"+p.address("admin")
	return p
}

// address returns the address of a listener according to the log.
func (p *process) address(listener string) string {
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, `"listener":"`+listener+`"`) {
			_, rest, _ := strings.Cut(line, `"address":"`)
			address, _, _ := strings.Cut(rest, `"`)
			return address
		}
	}
	return ""
}

// stop ends the process with SIGTERM and requires that it ends in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait(), "exit 0 after SIGTERM")
}

// testStartsDown starts the proxy while no node answers. It must stay up, say why it is not ready,
// and become ready once the nodes answer.
func testStartsDown(t *testing.T, binary string, cluster *devcluster.Cluster) {
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Kill())
	}
	p := start(t, binary, cluster, "")
	ready := func() (int, string) { return (&proxy{admin: p.admin}).get(t, "/readyz") }
	require.Eventually(t, func() bool { code, why := ready(); return code == 503 && strings.Contains(why, "127.0.0.1:9042") },
		patience, 100*time.Millisecond, "not ready, and says whom it tried")
	code, _ := (&proxy{admin: p.admin}).get(t, "/livez")
	assert.Equal(t, 200, code, "alive meanwhile")
	_, err := p.grpc.BatchGet(t.Context(), &qosproxyv1.BatchGetRequest{Keyspace: "data", Table: "plain", Keys: []*qosproxyv1.Key{textKey("a")}})
	require.ErrorContains(t, err, "Unavailable")

	var booting errgroup.Group
	for _, n := range cluster.Nodes() {
		booting.Go(func() error { return n.Start(t.Context()) })
	}
	require.NoError(t, booting.Wait())
	require.Eventually(t, func() bool { code, _ := ready(); return code == 200 }, patience, 100*time.Millisecond, "ready once the cluster is")
	p.stop(t)
}
