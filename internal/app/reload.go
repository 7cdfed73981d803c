package app

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/reload"
	"github.com/qosproxy/qosproxy/internal/status"
)

// applier prepares one part of the proxy for a new configuration: it reads the files and checks
// all that can go wrong. The commit that it returns cannot fail. In a reload either all
// appliers commit or none.
type applier func(before, next *config.Config) (commit func(), err error)

// appliers returns what follows the configuration, in the order of their commits. New tables
// are measured before they are served.
func (a *App) appliers() []applier {
	return []applier{a.applyAccess, a.applyServer, a.applyTargets, a.applyTables, a.applyClients, a.applyAdmission, a.applyLogLevel}
}

// applyAccess makes new connections to the cluster use the current credentials and certificates
// of the files.
func (a *App) applyAccess(_, next *config.Config) (func(), error) {
	access, err := accessOf(next)
	return func() { a.access.Store(&access) }, err
}

// applyServer makes new connections from clients use the current certificates of the files, and
// the limits.
func (a *App) applyServer(_, next *config.Config) (func(), error) {
	return a.server.Prepare(serverConfig(next))
}

func (a *App) applyTargets(_, next *config.Config) (func(), error) {
	return func() { a.recorder.SetTargets(targets(next)) }, nil
}

func (a *App) applyTables(_, next *config.Config) (func(), error) {
	return func() {
		a.meter.SetBudgets(groupBudgets(next))
		a.merge.SetTables(tableNames(next))
		if a.shadow != nil {
			a.shadow.SetTables(tableNames(next))
		}
		a.lookups.SetTables(lookupSettings(next))
		a.executor.SetFailoverKeys(next.Cassandra.DCFailoverKeys)
	}, nil
}

// applyClients makes new requests use the clients of the configuration.
func (a *App) applyClients(_, next *config.Config) (func(), error) {
	return a.clients.Prepare(members(next))
}

// applyAdmission applies limits and SLOs; lookups in-flight are not affected.
func (a *App) applyAdmission(_, next *config.Config) (func(), error) {
	return func() {
		a.boundHeap(next)
		a.admission.Replace(a.admissionLimits(next), slos(next))
	}, nil
}

// applyLogLevel applies the level only if it has changed in the configuration, so that a level
// set at /log/level stays.
func (a *App) applyLogLevel(before, next *config.Config) (func(), error) {
	return func() {
		if a.options.Level != nil && before.Log.Level != next.Log.Level {
			a.options.Level.Set(next.Log.Level)
		}
	}, nil
}

// applied are the keys that a reload applies, besides tables and clients. One that ends with a
// dot stands for all keys below it.
var applied = []string{
	"defaults.", "log.level", "shutdown.", "cassandra.dc_failover_keys", "cassandra.username", "cassandra.password_file", "cassandra.tls.",
	"listen.tls.", "listen.max_connections", "admission.",
}

// needRestart returns the keys that differ between two configurations and that a reload does
// not apply.
func needRestart(before, next *config.Config) []string {
	keys := slices.DeleteFunc(config.Changes(before, next), func(key string) bool {
		return key == "tables" || slices.ContainsFunc(applied, func(a string) bool {
			return key == a || strings.HasSuffix(a, ".") && strings.HasPrefix(key, a)
		})
	})
	b, n := before.Listen.TLS, next.Listen.TLS
	for _, l := range []struct {
		key          string
		before, next config.ServerTLS
	}{{"grpc", b.GRPC, n.GRPC}, {"http", b.HTTP, n.HTTP}, {"admin", b.Admin, n.Admin}} {
		if (l.before.CertFile == "") != (l.next.CertFile == "") {
			keys = append(keys, "listen.tls."+l.key+".cert_file")
		}
	}
	if wantsNodeLocal(next) && !wantsNodeLocal(before) {
		keys = append(keys, "consistency: NODE_LOCAL or quorum_reads: replicas")
	}
	return keys
}

// reloads returns how and when the configuration is reloaded.
func (a *App) reloads(registry prometheus.Registerer) reload.Config {
	return reload.Config{
		Load: a.load, Files: a.watched(a.started, a.started.Files()), Interval: a.options.reloadInterval, Signal: a.options.Hangup,
		Log: a.log, Registerer: registry,
	}
}

// watched returns the files to check for changes among those that a configuration depends on: not
// that of the configuration itself if it cannot be read again.
func (a *App) watched(cfg *config.Config, files []string) []string {
	if a.options.Reload != nil {
		return files
	}
	return slices.DeleteFunc(files, func(file string) bool { return file == cfg.File() })
}

// writtenSince reports whether the configuration file differs from what the proxy was started
// with, or cannot be read any more.
func (a *App) writtenSince() bool {
	if a.options.Reload == nil {
		return false
	}
	now, err := a.options.Reload()
	return err != nil || now.Digest() != a.started.Digest()
}

// load reads the configuration and the files that it names, and applies all of it or nothing.
// It returns the files to check for changes. After an error these include what the error may be
// about: token files, which identity otherwise follows by itself, and folders of sockets.
func (a *App) load() ([]string, error) {
	before := a.cfg.Load()
	next := before
	if a.options.Reload != nil {
		var err error
		if next, err = a.options.Reload(); err != nil {
			return before.Files(), err
		}
	}
	if err := next.CheckFiles(); err != nil {
		return a.watched(next, next.DependsOn()), err
	}
	var commits []func()
	var errs []error
	for _, apply := range a.appliers() {
		commit, err := apply(before, next)
		commits, errs = append(commits, commit), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return a.watched(next, next.DependsOn()), err
	}
	for _, commit := range commits {
		commit()
	}
	a.cfg.Store(next)
	known := needRestart(a.started, before)
	keys := slices.DeleteFunc(needRestart(a.started, next), func(key string) bool { return slices.Contains(known, key) })
	if len(keys) > 0 {
		a.log.Warn("these keys keep their value until the proxy is started anew; the rest of the configuration is in use", "keys", keys)
	}
	return a.watched(next, next.Files()), nil
}

// configStatus returns the configuration in use.
func (a *App) configStatus() status.Config {
	cfg, last := a.cfg.Load(), a.reloader.Status()
	out := status.Config{File: cfg.File(), Hash: cfg.Digest(), Loaded: last.At.UTC(), NeedRestart: needRestart(a.started, cfg)}
	if last.Err != nil {
		out.Error = last.Err.Error()
	}
	return out
}

// restartNeeded returns the metric for keys that wait for a restart.
func (a *App) restartNeeded() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "qosproxy_config_restart_needed", Help: "1 when the configuration has keys that are in use only after a restart, 0 otherwise.",
	}, func() float64 {
		if len(needRestart(a.started, a.cfg.Load())) > 0 {
			return 1
		}
		return 0
	})
}

// certificates collects when the certificates in use expire.
type certificates struct{ app *App }

var notAfterDesc = prometheus.NewDesc("qosproxy_tls_certificate_not_after_timestamp_seconds",
	"When the certificate in use expires: that of a listener, or as cassandra the one shown to the cluster.", []string{"listener"}, nil)

// Describe implements prometheus.Collector.
func (c certificates) Describe(ch chan<- *prometheus.Desc) { ch <- notAfterDesc }

// Collect implements prometheus.Collector.
func (c certificates) Collect(ch chan<- prometheus.Metric) {
	for name, at := range c.app.server.CertificatesNotAfter() {
		ch <- prometheus.MustNewConstMetric(notAfterDesc, prometheus.GaugeValue, float64(at.Unix()), name)
	}
	if at, ok := clientNotAfter(c.app.access.Load()); ok {
		ch <- prometheus.MustNewConstMetric(notAfterDesc, prometheus.GaugeValue, float64(at.Unix()), "cassandra")
	}
}

// clientNotAfter returns when the certificate for the cluster expires; false if there is none.
func clientNotAfter(access *cassandra.Access) (time.Time, bool) {
	if access == nil || access.TLS == nil || len(access.TLS.Certificates) == 0 || access.TLS.Certificates[0].Leaf == nil {
		return time.Time{}, false
	}
	return access.TLS.Certificates[0].Leaf.NotAfter, true
}
