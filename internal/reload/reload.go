// Package reload decides when files have changed and must be read again. It also
// decides how often a mistake is reported and which metrics show it. Its caller
// decides what is read and applied.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultInterval is how often files are looked at when Config says nothing. A
// change that stands for two looks is read, so it takes effect within two.
const DefaultInterval = time.Second

// maxFile is the most of a file that is looked at, in bytes.
const maxFile = 16 << 20

// Config is what a Reloader works with.
type Config struct {
	// Load reads the files again and applies what they say, all or nothing. It
	// returns the files that it depends on, also with an error: a file that is
	// missing is looked for again. Required; never called concurrently.
	Load func() (files []string, err error)
	// Files are looked at before the first call of Load.
	Files []string
	// Interval is how often they are looked at; 0 means DefaultInterval.
	Interval time.Duration
	// Signal has Load called at once; nil never does.
	Signal <-chan os.Signal
	// Log takes what an operator should know; nil discards it.
	Log *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Reloader looks at files. Its life is New and Run.
type Reloader struct {
	cfg Config
	log *slog.Logger

	results *prometheus.CounterVec
	success prometheus.Gauge
	last    prometheus.Gauge

	// tried is what the files held when Load was last called, seen what they
	// held at the last look.
	files       []string
	tried, seen digest

	mu     sync.Mutex
	status Status
}

// Status is how the last reload went.
type Status struct {
	// At is when Load last succeeded; before the first time, when the Reloader
	// was made.
	At time.Time
	// Err is why the last Load failed; nil when it did not.
	Err error
}

// digest is what some files hold, or why they cannot be read.
type digest [sha256.Size]byte

// New returns a Reloader for which what the files hold now has been applied. The
// error is that of the registerer.
func New(cfg Config) (*Reloader, error) {
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reloader{
		cfg: cfg, log: cfg.Log, files: cfg.Files,
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "qosproxy_config_reloads_total", Help: "Attempts to read the configuration and its files again, by result.",
		}, []string{"result"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "qosproxy_config_reload_success", Help: "1 when what the configuration and its files said last is in use, 0 when it was refused.",
		}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "qosproxy_config_last_reload_success_timestamp_seconds", Help: "When the configuration in use was read.",
		}),
	}
	r.tried = look(r.files)
	r.seen = r.tried
	r.results.WithLabelValues("success")
	r.results.WithLabelValues("failure")
	r.done(nil)
	if cfg.Registerer == nil {
		return r, nil
	}
	for _, c := range []prometheus.Collector{r.results, r.success, r.last} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of reloads: %w", err)
		}
	}
	return r, nil
}

// Expect has the files read at the first look at which they do not change, although they have not
// changed since New: what they hold may not be what was applied. It must not be called after Run.
func (r *Reloader) Expect() { r.tried = digest{} }

// Status returns how the last reload went.
func (r *Reloader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Run looks at the files until ctx ends.
func (r *Reloader) Run(ctx context.Context) {
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.look()
		case <-r.cfg.Signal:
			r.load("signal")
		}
	}
}

// look has the files read when they hold something else than when they were last
// read, and the same as at the last look: certificate and key are written one
// after the other, and a file in several writes.
func (r *Reloader) look() {
	now := look(r.files)
	settled := now == r.seen
	r.seen = now
	if settled && now != r.tried {
		r.load("change")
	}
}

// load reads and applies. What was tried is what the files held before it, so
// that a file which changes meanwhile is read again; and so is all when the files
// are others than those looked at.
func (r *Reloader) load(why string) {
	var err error
	for range 3 {
		r.tried = look(r.files)
		r.seen = r.tried
		var files []string
		files, err = r.cfg.Load()
		if slices.Equal(files, r.files) {
			break
		}
		r.files = files
	}
	r.done(err)
	if err != nil {
		r.results.WithLabelValues("failure").Inc()
		r.log.Error("configuration not reloaded; the one before it stays in use, correct the file and it is read again",
			"trigger", why, "error", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	r.results.WithLabelValues("success").Inc()
	r.log.Info("configuration reloaded", "trigger", why)
}

// done notes how a reload went.
func (r *Reloader) done(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Err = err
	if err != nil {
		r.success.Set(0)
		return
	}
	r.status.At = time.Now()
	r.success.Set(1)
	r.last.Set(float64(r.status.At.UnixMilli()) / 1e3)
}

// look returns the digest of what files hold. Contents are compared, and not
// times or inodes, since those say nothing of a symbolic link that was swapped, of
// a file written twice within the clock's grain, or on a network's file system.
func look(files []string) digest {
	h := sha256.New()
	for _, name := range files {
		_, _ = fmt.Fprintf(h, "%q\n", name)
		sum, err := content(name)
		if err != nil {
			_, _ = fmt.Fprintf(h, "%q\n", err.Error())
			continue
		}
		_, _ = h.Write(sum)
	}
	return digest(h.Sum(nil))
}

func content(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxFile)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
