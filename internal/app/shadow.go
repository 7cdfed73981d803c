package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/shadow"
)

// driverTimeout is how long the plain driver may take for a lookup: longer than most
// applications wait, since a late answer can still be compared.
const driverTimeout = 10 * time.Second

// OpenDriver connects to the cluster like an application without a proxy. The caller must
// close the result. The ring must be known.
func (a *App) OpenDriver(ctx context.Context) (*cassandra.Baseline, error) {
	settings := clusterConfig(a.started, a.log)
	settings.Access = func() cassandra.Access { return *a.access.Load() }
	settings.Incidents = a.incidents
	r := a.cluster.Ring()
	if r == nil {
		return nil, errors.New("the ring of the cluster is not known yet")
	}
	settings.LocalDC = r.LocalDC()
	return cassandra.OpenBaseline(ctx, cassandra.BaselineConfig{Config: settings})
}

// DriverPath returns the way in which driver reads lookups.
func DriverPath(driver *cassandra.Baseline, baseline shadow.Baseline) shadow.Path {
	return &shadow.Driver{Reader: driver, Baseline: baseline, Timeout: driverTimeout}
}

// Table returns a table that lookups may read; see lookup.Service.Table.
func (a *App) Table(keyspace, table string) (*lookup.Table, error) {
	return a.lookups.Table(keyspace, table)
}

// HostAddresses returns the addresses of the nodes of the local datacenter, or of all nodes if
// there is no local datacenter; empty until the ring is known.
func (a *App) HostAddresses() []string {
	r := a.cluster.Ring()
	if r == nil {
		return nil
	}
	var out []string
	for _, h := range r.Hosts() {
		if r.LocalDC() == "" || h.DC == r.LocalDC() {
			out = append(out, h.Addr)
		}
	}
	return out
}

// sampled returns the service behind the listeners. If the configuration asks for it, a share
// of the lookups is compared with the plain driver.
func (a *App) sampled(ctx context.Context, registry prometheus.Registerer) (server.Lookup, error) {
	s := a.started.Shadow
	if s.Sample <= 0 {
		return a.lookups, nil
	}
	driver := &lateDriver{app: a, baseline: shadow.Baseline(s.Baseline)}
	live, err := shadow.NewLive(a.lookups, shadow.LiveConfig{
		Sample: float64(s.Sample), Concurrency: s.Concurrency, Driver: driver,
		Registerer: registry, Log: a.log, Incidents: a.incidents,
	})
	if err != nil {
		return nil, err
	}
	live.SetTables(tableNames(a.started))
	a.onStop(func(context.Context) error { driver.close(); return nil })
	a.run(ctx, live.Run)
	a.shadow = live
	return live, nil
}

// shadowStatus returns the result of comparing with the plain driver; nil without comparison.
func (a *App) shadowStatus() any {
	if a.shadow == nil {
		return nil
	}
	return a.shadow.Status()
}

// lateDriver is a driver that connects when it is first used: the proxy may start while its
// cluster is down.
type lateDriver struct {
	app      *App
	baseline shadow.Baseline

	mu     sync.Mutex
	driver *cassandra.Baseline
	failed time.Time
}

// retryDriver is the pause between a failure to connect and the next attempt.
const retryDriver = 10 * time.Second

var errNoDriver = errors.New("the plain driver is not connected")

// Read implements shadow.Path.
func (l *lateDriver) Read(ctx context.Context, req *lookup.Request) (*shadow.Answer, error) {
	driver, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	return DriverPath(driver, l.baseline).Read(ctx, req)
}

func (l *lateDriver) open(ctx context.Context) (*cassandra.Baseline, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.driver != nil {
		return l.driver, nil
	}
	if !l.failed.IsZero() && time.Since(l.failed) < retryDriver {
		return nil, errNoDriver
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	driver, err := l.app.OpenDriver(ctx)
	if err != nil {
		l.failed = time.Now()
		l.app.log.LogAttrs(ctx, slog.LevelWarn, "lookups are not compared: the plain driver does not connect", slog.Any("error", err))
		return nil, err
	}
	l.driver = driver
	return driver, nil
}

func (l *lateDriver) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.driver != nil {
		l.driver.Close()
	}
}
