package incident

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newLog(t *testing.T) (*Log, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	l, err := New(slog.New(slog.NewTextHandler(&out, nil)), prometheus.NewRegistry())
	require.NoError(t, err)
	return l, &out
}

var quotient int

// divide panics with an error of the runtime.
func divide(by int) { quotient = 1 / by }

func TestPanicIsAnErrorWithAnId(t *testing.T) {
	l, out := newLog(t)
	require.NoError(t, l.Run(t.Context(), "calm", func() {}))
	for name, test := range map[string]struct {
		f             func()
		logged, never string
	}{
		"of the runtime":          {func() { divide(0) }, "integer divide by zero", "SECRET"},
		"with a value of our own": {func() { panic("SECRET key") }, "panic=string", "SECRET"},
		"with an error":           {func() { panic(errors.New("SECRET key")) }, "*errors.errorString", "SECRET"},
	} {
		t.Run(name, func(t *testing.T) {
			out.Reset()
			before := testutil.ToFloat64(l.panics)
			err := l.Run(t.Context(), "a test", test.f)
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			assert.Len(t, e.ID, 12)
			assert.Contains(t, e.Error(), e.ID)
			assert.Contains(t, out.String(), "incident="+e.ID)
			assert.Contains(t, out.String(), "level=ERROR")
			assert.Contains(t, out.String(), `where="a test"`)
			assert.Contains(t, out.String(), "incident_test.go", "the stack of the panic")
			assert.Contains(t, out.String(), test.logged)
			assert.NotContains(t, out.String(), test.never)
			assert.InDelta(t, before+1, testutil.ToFloat64(l.panics), 0)
		})
	}
}

func TestALogThatIsNotThereRecoversToo(t *testing.T) {
	var l *Log
	require.Error(t, l.Run(t.Context(), "a test", func() { divide(0) }))
	func() {
		defer l.Catch(t.Context(), "a test", nil)
		divide(0)
	}()
	l, err := New(nil, nil)
	require.NoError(t, err)
	require.Error(t, l.Run(t.Context(), "a test", func() { divide(0) }))
}

func TestTheMetricIsRegisteredOnce(t *testing.T) {
	r := prometheus.NewRegistry()
	_, err := New(slog.Default(), r)
	require.NoError(t, err)
	n, err := testutil.GatherAndCount(r, "qosproxy_panics_total")
	require.NoError(t, err)
	assert.Equal(t, 1, n, "there from the start, so that an alert can see it rise")
	_, err = New(slog.Default(), r)
	require.Error(t, err)
}

func TestALoopThatPanicsGoesOnWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLog(t)
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var at []time.Duration
		l.Keep(ctx, "a loop", func(context.Context) {
			at = append(at, time.Since(begin))
			if len(at) < 4 {
				divide(0)
			}
		})
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}, at)

		time.AfterFunc(time.Hour, cancel)
		rounds := 0
		l.Keep(ctx, "a loop", func(context.Context) {
			rounds++
			divide(0)
		})
		assert.Equal(t, time.Hour+700*time.Millisecond, time.Since(begin), "it ends with its context")
		assert.InDelta(t, 128, rounds, 2, "at most every 30 s")
	})
}
