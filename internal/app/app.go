// Package app decides which parts of the proxy know each other, and when the process collects
// garbage. It builds every part from the configuration, beginning with the one that a lookup
// reaches last, and stops them in reverse.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cost"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/memory"
	"github.com/qosproxy/qosproxy/internal/merge"
	"github.com/qosproxy/qosproxy/internal/reload"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/shadow"
	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/status"
)

// Options are what an App needs besides its configuration.
type Options struct {
	// Version and Commit identify this build.
	Version, Commit string
	// Log receives what an operator should know; nil discards it.
	Log *slog.Logger
	// Level changes the level of Log at run time; with nil it cannot be changed.
	Level *slog.LevelVar
	// Reload reads the configuration again; nil keeps it, and only the files that it names are
	// read again.
	Reload func() (*config.Config, error)
	// Hangup triggers an immediate reload of everything; nil never does.
	Hangup <-chan os.Signal

	// OwnProcess allows the proxy to set the memory limit of the runtime, unless there is one,
	// and when garbage is collected.
	OwnProcess bool

	// reloadInterval is how often files are checked for changes; 0 means the default.
	reloadInterval time.Duration
}

// App is a proxy. Call New, Start and Stop, or New and Run.
type App struct {
	// started is the configuration at the start, cfg the one in use.
	started *config.Config
	cfg     atomic.Pointer[config.Config]
	options Options
	log     *slog.Logger

	access    atomic.Pointer[cassandra.Access]
	incidents *incident.Log
	cluster   *cassandra.Cluster
	meter     *cost.Meter
	merge     *merge.Reader
	executor  *executor.Executor
	admission *admission.Controller
	memory    *memory.Budget
	lookups   *lookup.Service
	recorder  *sla.Recorder
	clients   *identity.Registry
	board     *status.Board
	server    *server.Server
	reloader  *reload.Reloader
	// shadow is nil unless lookups are compared with the plain driver.
	shadow *shadow.Live
	// memoryLimit is the limit of the runtime from before the proxy was created, in bytes;
	// math.MaxInt64 for none.
	memoryLimit int64
	// stops end what Start began, in the order of its beginning.
	stops []func(context.Context) error
}

// New returns a proxy that is not started. The configuration must be valid.
func New(cfg *config.Config, options Options) *App {
	log := options.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &App{started: cfg, options: options, memoryLimit: debug.SetMemoryLimit(-1)}
	a.memory = memory.New(a.budget(cfg))
	a.board = status.New(boardSource{a})
	a.log = slog.New(a.board.Log(log.Handler()))
	a.cfg.Store(cfg)
	return a
}

// Start starts the proxy and returns once the listeners are bound. The cluster may still be
// down: then the proxy is not ready and says why. After an error nothing is left running.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Stop(ctx))
		}
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(a.options),
	)

	if a.incidents, err = incident.New(a.log, registry); err != nil {
		return err
	}
	tracer := a.trace(ctx, registry)
	// First, so that a file which changes while the parts below read their files is read again.
	if a.reloader, err = reload.New(a.reloads(registry)); err != nil {
		return err
	}
	if a.writtenSince() {
		a.reloader.Expect()
	}
	settings, err := CassandraConfig(a.started, a.log)
	if err != nil {
		return err
	}
	a.access.Store(&cassandra.Access{Username: settings.Username, Password: settings.Password, TLS: settings.TLS, AnyName: settings.AnyName})
	settings.Access = func() cassandra.Access { return *a.access.Load() }
	settings.Registerer, settings.Incidents = registry, a.incidents
	if a.cluster, err = cassandra.Open(ctx, settings); err != nil {
		return err
	}
	a.onStop(func(context.Context) error { a.cluster.Close(); return nil })

	a.meter = cost.NewMeter(a.cluster)
	a.meter.SetBudgets(groupBudgets(a.started))
	registry.MustRegister(a.meter)
	if a.merge, err = merge.New(merge.Config{
		Reader: a.meter, Costs: a.meter.Costs, Ring: a.cluster.Ring, Registerer: registry, Incidents: a.incidents,
	}); err != nil {
		return fmt.Errorf("register the metrics of statements: %w", err)
	}
	a.merge.SetTables(tableNames(a.started))
	a.executor = executor.New(safeguards(executor.Config{
		Reader:     a.merge,
		GroupSize:  a.meter.GroupSize,
		Ring:       a.cluster.Ring,
		Logger:     a.log,
		Registerer: registry,
		Incidents:  a.incidents,

		FailoverKeys: a.started.Cassandra.DCFailoverKeys,
	}))
	a.onStop(func(context.Context) error { a.executor.Close(); return nil })

	a.lookups = lookup.New(lookup.Config{
		Tables:    lookupSettings(a.started),
		Ring:      a.cluster.Ring,
		Schema:    a.cluster.Schema,
		Executor:  a.executor,
		OwnData:   a.cluster.OwnData,
		LocalRack: a.started.Cassandra.LocalRack,
		HotKeys:   a.started.Admin.HotKeys != config.HotKeysOff,
		Incidents: a.incidents,
	})
	if a.recorder, err = sla.New(registry, targets(a.started)); err != nil {
		return err
	}
	a.boundHeap(a.started)
	if a.options.OwnProcess {
		stop := keepHeap()
		a.onStop(func(context.Context) error { stop(); return nil })
	}
	if a.admission, err = admission.New(admission.Config{
		Limits: a.admissionLimits(a.started), Tables: slos(a.started), Registerer: registry, Memory: a.memory,
	}); err != nil {
		return err
	}

	a.clients = identity.NewRegistry(registry, a.log)
	if err := a.clients.Replace(members(a.started)); err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	a.run(ctx, a.clients.Follow)

	lookups, err := a.sampled(ctx, registry)
	if err != nil {
		return err
	}
	a.server = server.New(serverConfig(a.started), server.Deps{
		Lookup:     lookups,
		Admission:  a.admission,
		Memory:     a.memory,
		Ready:      a.NotReady,
		Observer:   server.ObserverFunc(a.observe),
		Clients:    a.clients,
		Audit:      identity.NewAudit(registry, a.log),
		Pages:      a.pages(registry),
		Registerer: registry,
		Log:        a.log,
		Incidents:  a.incidents,
		Tracer:     tracer,
	})
	if err := a.server.Start(ctx); err != nil {
		return err
	}
	a.onStop(a.server.Shutdown)
	registry.MustRegister(certificates{a}, a.restartNeeded())
	a.run(ctx, a.reloader.Run)
	return nil
}

// run runs a function in the background until the proxy stops.
func (a *App) run(ctx context.Context, do func(context.Context)) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.incidents.Keep(background, "background work", do)
	}()
	a.onStop(func(context.Context) error {
		stop()
		<-ended
		return nil
	})
}

// onStop registers the function that ends the step which has just begun.
func (a *App) onStop(stop func(context.Context) error) { a.stops = append(a.stops, stop) }

// Stop stops the proxy, in reverse order of its start. Requests in-flight are still answered
// until ctx ends.
func (a *App) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(a.stops) {
		errs = append(errs, stop(ctx))
	}
	a.stops = nil
	return errors.Join(errs...)
}

// Run starts the proxy and serves until ctx ends. Then it becomes not ready, waits
// shutdown.delay for balancers to notice, and answers what is in-flight for at most
// shutdown.timeout. It returns nil after an orderly end.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	var failed error
	select {
	case <-ctx.Done():
		a.server.Drain(context.WithoutCancel(ctx), a.cfg.Load().Shutdown.Delay)
	case failed = <-a.server.Failed():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Load().Shutdown.Timeout)
	defer cancel()
	err := errors.Join(failed, a.Stop(stopping))
	if err == nil {
		a.log.Info("stopped")
	}
	return err
}

// NotReady returns why lookups cannot be answered; empty if they can.
func (a *App) NotReady() string {
	return notReady(a.cluster.Status(), a.cluster.Ring() != nil, a.cluster.Schema() != nil)
}

// notReady checks what a lookup needs: a cluster that answers, a ring and a schema.
func notReady(status cassandra.Status, ring, schema bool) string {
	switch {
	case !status.Ready && status.Reason != "":
		return status.Reason
	case !status.Ready:
		return "connecting to the cluster"
	case !ring:
		return "the ring of the cluster is not known yet"
	case !schema:
		return "the schema of the cluster is not known yet"
	}
	return ""
}

// Percentiles returns the latencies of a table, named keyspace.table, over a window of up to
// five minutes; the zero Percentiles for a table that is not served.
func (a *App) Percentiles(table string, window time.Duration) sla.Percentiles {
	p, _ := a.recorder.Snapshot(table, window)
	return p
}

// Avoided returns the addresses (host:port) of the hosts that lookups avoid at this moment, in
// the order of the ring: those that are suspect, probing or ejected.
func (a *App) Avoided() []string {
	var out []string
	for _, h := range a.executor.Health() {
		switch h.State {
		case executor.Suspect, executor.Probing, executor.Ejected:
			out = append(out, h.Host.Addr)
		case executor.Healthy, executor.SlowStart:
		}
	}
	return out
}

// buildInfo returns the metric that identifies this build.
func buildInfo(options Options) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "qosproxy_build_info",
		Help: "1, labelled with version and revision of this build and the Go that built it.",
		ConstLabels: prometheus.Labels{
			"version": options.Version, "revision": options.Commit, "goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })
}

// CassandraConfig returns how to connect to the cluster of a configuration. It reads the
// password and certificate files.
func CassandraConfig(cfg *config.Config, log *slog.Logger) (cassandra.Config, error) {
	out := clusterConfig(cfg, log)
	access, err := accessOf(cfg)
	out.Username, out.Password, out.TLS, out.AnyName = access.Username, access.Password, access.TLS, access.AnyName
	return out, err
}

// clusterConfig is CassandraConfig without the contents of password and certificate files.
func clusterConfig(cfg *config.Config, log *slog.Logger) cassandra.Config {
	c := cfg.Cassandra
	return cassandra.Config{
		ContactPoints:      c.ContactPoints,
		Port:               c.Port,
		LocalDC:            c.LocalDC.Local(),
		LaterDCs:           c.LocalDC.Later(),
		ConnectionsPerHost: c.ConnectionsPerHost,
		ConnectTimeout:     c.ConnectTimeout,
		RefreshInterval:    c.RefreshInterval,
		NodeLocal:          wantsNodeLocal(cfg),
		Logger:             log,
	}
}

// Addr returns the address to which the listener grpc, http or admin is bound; empty if it is
// off.
func (a *App) Addr(listener string) string {
	if addr := a.server.Addr(listener); addr != nil {
		return addr.String()
	}
	return ""
}
