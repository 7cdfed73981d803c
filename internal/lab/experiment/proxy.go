package experiment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// Proxy is a qosproxy in a process of its own, so that its CPU time and memory can be measured.
type Proxy struct {
	// GRPC, HTTP and Admin are the addresses of its listeners: host:port, or unix:///path for GRPC.
	GRPC, HTTP, Admin string
	// StartToReady is the time from the start of the process until it was ready, to 20 ms.
	StartToReady time.Duration

	cluster *devcluster.Cluster
	binary  string
	dir     string
	env     []string

	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	err     error         // the result of Wait; valid after done
	stopped bool
}

// configFile and logFile are names in the folder of a proxy.
const (
	configFile = "qosproxy.yaml"
	logFile    = "log"
)

// File returns the path of the configuration.
func (p *Proxy) File() string { return filepath.Join(p.dir, configFile) }

// PID returns the id of the process, which may have ended.
func (p *Proxy) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Proxy) Done() <-chan struct{} { return p.done }

// proxyPatience is how long a proxy may take until it is ready, and to stop.
const proxyPatience = 20 * time.Second

// startProxy runs "binary serve" with a configuration, whose listeners should have port 0, and
// waits until the proxy is ready. env adds variables to those of this process. The proxy never
// outlives the cluster.
func startProxy(ctx context.Context, cluster *devcluster.Cluster, binary, yaml string, env []string) (*Proxy, error) {
	dir, err := os.MkdirTemp(cluster.Dir(), "proxy")
	if err != nil {
		return nil, err
	}
	p := &Proxy{cluster: cluster, binary: binary, dir: dir, env: env}
	if err := os.WriteFile(p.File(), []byte(yaml), 0o600); err != nil {
		return nil, err
	}
	return p, p.start(ctx)
}

// start starts the process with an empty log.
func (p *Proxy) start(ctx context.Context) error {
	var ended func()
	p.cmd, ended = p.cluster.Companion(filepath.Base(p.dir), p.binary, "serve", "--config", p.File())
	p.cmd.Env = append(os.Environ(), p.env...)
	log, err := os.Create(filepath.Join(p.dir, logFile))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd.Stderr = log
	start := time.Now()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done, p.stopped = make(chan struct{}), false
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
		ended()
	}()
	err = p.awaitReady(ctx)
	p.StartToReady = time.Since(start)
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return errors.Join(fmt.Errorf("start the proxy: %w; its log:\n%s", err, text), p.Stop())
	}
	return nil
}

// Restart stops the process as Stop does, starts it again at the same addresses, and returns when
// it is ready. A stop that was not in good order is an error too, but the proxy is started all the
// same.
func (p *Proxy) Restart(ctx context.Context) error {
	stopped := p.Stop()
	text, err := os.ReadFile(p.File())
	if err != nil {
		return err
	}
	for _, l := range []struct{ key, address string }{{"grpc", p.GRPC}, {"http", p.HTTP}, {"admin", p.Admin}} {
		text = bytes.Replace(text, []byte(l.key+`: "127.0.0.1:0"`), []byte(l.key+": "+l.address), 1)
	}
	if err := os.WriteFile(p.File(), text, 0o600); err != nil {
		return err
	}
	return errors.Join(stopped, p.start(ctx))
}

// awaitReady waits until the log has the address of every listener and says that the ring is known.
func (p *Proxy) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proxyPatience)
	defer cancel()
	for {
		ready, err := p.readLog()
		if err != nil {
			return err
		}
		if ready && p.GRPC != "" && p.HTTP != "" && p.Admin != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("it is not ready")
		case <-p.done:
			return errors.New("it has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readLog reads the addresses from the log, and whether it says that the proxy is ready.
func (p *Proxy) readLog() (ready bool, err error) {
	f, err := os.Open(filepath.Join(p.dir, logFile))
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct{ Msg, Listener, Address string }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch line.Listener {
		case "grpc":
			p.GRPC = line.Address
			if strings.HasPrefix(line.Address, "/") {
				p.GRPC = "unix://" + line.Address
			}
		case "http":
			p.HTTP = line.Address
		case "admin":
			p.Admin = line.Address
		}
		ready = ready || strings.Contains(line.Msg, "cassandra is ready")
	}
	return ready, nil
}

// Metrics returns the metrics of the process by name. It fails if there is no answer within five
// seconds.
func (p *Proxy) Metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := p.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(body)
}

// get requests a path from the admin listener. The caller closes the body.
func (p *Proxy) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("GET %s: %s", req.URL, resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}

// Resident returns the resident memory of the process in bytes. It fails without /proc.
func (p *Proxy) Resident() (int, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var size, resident int
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return 0, fmt.Errorf("read /proc/%d/statm: %w", p.cmd.Process.Pid, err)
	}
	return resident * os.Getpagesize(), nil
}

// Stop ends the proxy with SIGTERM, or after 20 s with SIGKILL, and returns when it has ended. The
// error says that it did not end in good order. Further calls do nothing and return nil.
func (p *Proxy) Stop() error {
	if p.stopped {
		return nil
	}
	p.stopped = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(proxyPatience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.done
	if p.err != nil {
		return fmt.Errorf("stop the proxy: %w", p.err)
	}
	return nil
}
