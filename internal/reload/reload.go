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

// DefaultInterval is how often files are checked when Config.Interval is 0. A change is read once
// two checks in a row have seen it, so it takes effect within two intervals.
const DefaultInterval = time.Second

// maxFile is how many bytes of each file are compared.
const maxFile = 16 << 20

// Config configures a Reloader.
type Config struct {
	// Load reads the files again and applies their contents, all or nothing. It returns the files
	// that it depends on, even with an error, so that a missing file is noticed once it appears.
	// Required; never called concurrently.
	Load func() (files []string, err error)
	// Files are the files to check until Load is first called and returns its own list.
	Files []string
	// Interval is how often the files are checked; 0 means DefaultInterval.
	Interval time.Duration
	// Signal causes a call of Load at once for each value received; may be nil.
	Signal <-chan os.Signal
	// Log receives messages for the operator; nil discards them.
	Log *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Reloader calls Load when files have changed. New makes one, and Run runs it.
type Reloader struct {
	cfg Config
	log *slog.Logger

	results *prometheus.CounterVec
	success prometheus.Gauge
	last    prometheus.Gauge

	// tried is the digest of the files when Load was last called, and seen their digest at the
	// last check.
	files       []string
	tried, seen digest

	mu     sync.Mutex
	status Status
}

// Status is how the last reload went.
type Status struct {
	// At is when Load last succeeded, or when the Reloader was made if it has not yet.
	At time.Time
	// Err is why the last Load failed; nil when it succeeded.
	Err error
}

// digest is a hash of the contents of files, or of the errors of reading them.
type digest [sha256.Size]byte

// New returns a Reloader that takes the current contents of the files as already applied. The
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

// Expect makes Run call Load at its first check with stable files, even if they have not changed
// since New. It is for files whose contents may differ from what was applied. It must not be
// called after Run.
func (r *Reloader) Expect() { r.tried = digest{} }

// Status returns how the last reload went.
func (r *Reloader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Run checks the files until ctx ends.
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

// look calls Load when the files differ from those last loaded and have not changed since the
// last check. The wait is needed because certificate and key are written one after the other, and
// a file in several writes.
func (r *Reloader) look() {
	now := look(r.files)
	settled := now == r.seen
	r.seen = now
	if settled && now != r.tried {
		r.load("change")
	}
}

// load calls Load. It computes tried before the call, so that a file which changes meanwhile is
// read again. When Load returns other files than were hashed, load calls it again, at most three
// times in all.
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

// done records the result of a reload.
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

// look returns the digest of files. It compares contents and not times or inodes, which miss a
// symbolic link that was swapped, a file written twice within the clock's resolution, and changes
// on a network file system.
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
