package experiment

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/qosproxy/qosproxy/internal/devcluster"
)

// Proxy is a qosproxy in a process of its own, so that what it spends is its own.
type Proxy struct {
	// GRPC, HTTP and Admin are the addresses of its listeners, host:port.
	GRPC, HTTP, Admin string
	// StartToReady is the time from the start of the process until it was seen to
	// be ready, to 20 ms.
	StartToReady time.Duration

	cmd   *exec.Cmd
	ended func()
	log   string
}

// proxyPatience bounds how long a proxy may take until it is ready, and to stop.
const proxyPatience = 20 * time.Second

// startProxy runs "binary serve" with a configuration, whose listeners should have
// port 0, and waits until it is ready. It ends with the cluster at the latest.
func startProxy(ctx context.Context, cluster *devcluster.Cluster, binary, yaml string) (*Proxy, error) {
	dir, err := os.MkdirTemp(cluster.Dir(), "proxy")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "qosproxy.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		return nil, err
	}
	p := &Proxy{log: filepath.Join(dir, "log")}
	p.cmd, p.ended = cluster.Companion(filepath.Base(dir), binary, "serve", "--config", file)
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd.Stderr = log
	start := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	err = p.awaitReady(ctx)
	p.StartToReady = time.Since(start)
	if err != nil {
		text, _ := os.ReadFile(p.log)
		return nil, errors.Join(fmt.Errorf("start the proxy: %w; its log:\n%s", err, text), p.Stop())
	}
	return p, nil
}

// awaitReady waits until the log names the listeners and says that the cluster is
// known.
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
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readLog looks in the log for the addresses and for the word that it is ready.
func (p *Proxy) readLog() (ready bool, err error) {
	f, err := os.Open(p.log)
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
		case "http":
			p.HTTP = line.Address
		case "admin":
			p.Admin = line.Address
		}
		ready = ready || strings.Contains(line.Msg, "cassandra is ready")
	}
	return ready, nil
}

// Resident returns the memory that the process has resident, in bytes. It fails
// where there is no /proc.
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

// Stop ends the proxy and returns when it is gone.
func (p *Proxy) Stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(proxyPatience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Wait()
	p.ended()
	if err != nil {
		return fmt.Errorf("stop the proxy: %w", err)
	}
	return nil
}
