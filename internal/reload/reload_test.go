package reload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loaded is what a load of these tests reads: a file that must say "good".
type loaded struct {
	file  string
	loads int
	last  string
}

func (l *loaded) load() ([]string, error) {
	l.loads++
	data, err := os.ReadFile(l.file)
	if err != nil {
		return []string{l.file}, err
	}
	if !strings.HasPrefix(string(data), "good") {
		return []string{l.file}, errors.New(l.file + ":1: not good")
	}
	l.last = string(data)
	return []string{l.file}, nil
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// pass lets time pass and waits for what was due then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// follow runs a Reloader over a file in a bubble of virtual time.
func follow(t *testing.T, text string, test func(l *loaded, r *Reloader, hangup chan os.Signal)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := &loaded{file: filepath.Join(dir, "f")}
		if text != "" {
			write(t, l.file, text)
		}
		hangup := make(chan os.Signal)
		r, err := New(Config{Load: l.load, Files: []string{l.file}, Signal: hangup})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		test(l, r, hangup)
	})
}

func TestAChangeIsReadOnceItStands(t *testing.T) {
	follow(t, "good 1", func(l *loaded, r *Reloader, _ chan os.Signal) {
		pass(time.Minute)
		assert.Zero(t, l.loads, "nothing has changed")
		write(t, l.file, "good 2")
		pass(2*DefaultInterval + time.Millisecond)
		assert.Equal(t, "good 2", l.last)
		pass(time.Minute)
		assert.Equal(t, 1, l.loads)
		assert.InDelta(t, 1, testutil.ToFloat64(r.success), 0)
	})
}

func TestAFileThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	follow(t, "good 1", func(l *loaded, r *Reloader, _ chan os.Signal) {
		for _, part := range []string{"", "g", "goo", "good 2"} {
			write(t, l.file, part)
			pass(DefaultInterval)
		}
		pass(DefaultInterval + time.Millisecond)
		assert.Equal(t, "good 2", l.last)
		assert.InDelta(t, 0, testutil.ToFloat64(r.results.WithLabelValues("failure")), 0)
	})
}

func TestBrokenThenFixed(t *testing.T) {
	follow(t, "good 1", func(l *loaded, r *Reloader, _ chan os.Signal) {
		begin := r.Status().At
		write(t, l.file, "bad")
		pass(time.Hour)
		assert.Equal(t, 1, l.loads, "one message for one mistake")
		require.ErrorContains(t, r.Status().Err, ":1: not good")
		assert.Equal(t, begin, r.Status().At)
		assert.InDelta(t, 0, testutil.ToFloat64(r.success), 0)
		write(t, l.file, "good 1")
		pass(3 * DefaultInterval)
		assert.NoError(t, r.Status().Err, "also when it is as it was before")
		assert.InDelta(t, 1, testutil.ToFloat64(r.success), 0)
		assert.InDelta(t, float64(r.Status().At.Unix()), testutil.ToFloat64(r.last), 1)
		assert.True(t, r.Status().At.After(begin))
	})
}

func TestAMissingFileIsLookedForAgain(t *testing.T) {
	follow(t, "", func(l *loaded, r *Reloader, hangup chan os.Signal) {
		hangup <- syscall.SIGHUP
		synctest.Wait()
		require.ErrorIs(t, r.Status().Err, os.ErrNotExist)
		write(t, l.file, "good 1")
		pass(3 * DefaultInterval)
		assert.Equal(t, "good 1", l.last)
	})
}

func TestASignalReadsAtOnceAlsoWithoutAChange(t *testing.T) {
	follow(t, "good 1", func(l *loaded, _ *Reloader, hangup chan os.Signal) {
		hangup <- syscall.SIGHUP
		synctest.Wait()
		assert.Equal(t, "good 1", l.last)
		pass(time.Minute)
		assert.Equal(t, 1, l.loads)
	})
}

// TestKubernetesSwapsALink changes a folder as a kubelet changes that of a
// ConfigMap: the file is a link through ..data, which is replaced by rename.
func TestKubernetesSwapsALink(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		publish := func(version, text string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			write(t, filepath.Join(dir, version, "f"), text)
			require.NoError(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		}
		publish("..1", "good 1")
		l := &loaded{file: filepath.Join(dir, "f")}
		require.NoError(t, os.Symlink(filepath.Join("..data", "f"), l.file))
		r, err := New(Config{Load: l.load, Files: []string{l.file}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		pass(time.Minute)
		publish("..2", "good 2")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "..1")))
		pass(3 * DefaultInterval)
		assert.Equal(t, "good 2", l.last)
		assert.Equal(t, 1, l.loads)
	})
}

func TestFilesThatALoadNamesAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
		write(t, first, "a")
		loads := 0
		r, err := New(Config{Files: []string{first}, Load: func() ([]string, error) { loads++; return []string{first, second}, nil }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		write(t, first, "b")
		pass(time.Minute)
		before := loads
		write(t, second, "c")
		pass(time.Minute)
		assert.Equal(t, before+1, loads)
	})
}

func TestMetricsHaveTheirNames(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	_, err := New(Config{Registerer: reg})
	require.NoError(t, err)
	n, err := testutil.GatherAndCount(reg, "qosproxy_config_reload_success", "qosproxy_config_last_reload_success_timestamp_seconds", "qosproxy_config_reloads_total")
	require.NoError(t, err)
	assert.Equal(t, 4, n)
	_, err = New(Config{Registerer: reg})
	require.Error(t, err)
}
