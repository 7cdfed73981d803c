package cassandra

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
)

// settleCount returns an outstanding and the number of times it has settled.
func settleCount() (*outstanding, *int) {
	n := 0
	return newOutstanding(func() { n++ }, nil), &n
}

func TestASubQuerySettlesOnce(t *testing.T) {
	var o gocql.ObservedStream
	type step func(v *outstanding, s *stream)
	start := func(_ *outstanding, s *stream) { s.StreamStarted(o) }
	finish := func(_ *outstanding, s *stream) { s.StreamFinished(o) }
	abandon := func(_ *outstanding, s *stream) { s.StreamAbandoned(o) }
	give := func(err error) step { return func(_ *outstanding, s *stream) { s.leave(err) } }
	release := func(v *outstanding, _ *stream) { v.release() }
	wait := func(d time.Duration) step { return func(*outstanding, *stream) { time.Sleep(d); synctest.Wait() } }
	for name, test := range map[string]struct {
		steps []step
		want  int
	}{
		"never sent":                                 {[]step{release}, 1},
		"answered in time":                           {[]step{start, finish, give(nil), release}, 1},
		"two pages":                                  {[]step{start, finish, start, finish, give(nil), release}, 1},
		"left, not answered yet":                     {[]step{start, give(context.Canceled), release}, 0},
		"left, answered late":                        {[]step{start, give(context.Canceled), release, finish}, 1},
		"left, the connection breaks late":           {[]step{start, give(context.Canceled), release, abandon}, 1},
		"the connection broke":                       {[]step{start, abandon, give(gocql.ErrConnectionClosed), release}, 1},
		"the connection was closed without a word":   {[]step{start, give(gocql.ErrConnectionClosed), release}, 1},
		"the connection ended in the midst":          {[]step{start, give(io.EOF), release}, 1},
		"left, and nobody ever says a word":          {[]step{start, give(context.Canceled), release, wait(settleLimit)}, 1},
		"left, and not long enough ago":              {[]step{start, give(context.Canceled), release, wait(settleLimit - 1)}, 0},
		"left, answered late, and time passes":       {[]step{start, give(context.Canceled), release, finish, wait(2 * settleLimit)}, 1},
		"answered before the sub-query was released": {[]step{start, give(context.Canceled), finish}, 0},
		"told twice that it ended":                   {[]step{start, finish, abandon, release}, 1},
		"the driver gave up waiting, answered late":  {[]step{start, give(gocql.ErrTimeoutNoResponse), release, finish}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, n := settleCount()
				s := &stream{Context: t.Context(), outstanding: v}
				for _, step := range test.steps {
					step(v, s)
				}
				assert.Equal(t, test.want, *n)
			})
		})
	}
}

func TestASubQueryIsLostUnlessItsHostHasAnswered(t *testing.T) {
	var o gocql.ObservedStream
	for name, test := range map[string]struct {
		end  func(*stream)
		lost bool
	}{
		"never sent":           {func(*stream) {}, true},
		"answered":             {func(s *stream) { s.StreamStarted(o); s.StreamFinished(o) }, false},
		"the connection broke": {func(s *stream) { s.StreamStarted(o); s.StreamAbandoned(o) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			v, settled := settleCount()
			lost := false
			v.lost = func() { lost = *settled == 0 }
			test.end(&stream{Context: t.Context(), outstanding: v})
			v.release()
			assert.Equal(t, test.lost, lost)
			assert.Equal(t, 1, *settled)
		})
	}
}

func TestASubQueryWaitsForAllOfItsStreams(t *testing.T) {
	var o gocql.ObservedStream
	v, n := settleCount()
	a, b := &stream{Context: t.Context(), outstanding: v}, &stream{Context: t.Context(), outstanding: v}
	a.StreamStarted(o)
	b.StreamStarted(o)
	v.release()
	b.StreamFinished(o)
	assert.Zero(t, *n)
	a.StreamFinished(o)
	assert.Equal(t, 1, *n)
}

func TestStreamObserverKnowsReadsFromTheDriversOwnRequests(t *testing.T) {
	s := &stream{Context: t.Context()}
	assert.Same(t, s, streamObserver{}.StreamContext(s))
	derived, cancel := context.WithCancel(s)
	defer cancel()
	assert.Same(t, s, streamObserver{}.StreamContext(derived))
	if got := (streamObserver{}).StreamContext(t.Context()); got != nil {
		t.Fatalf("%#v: a nil of type *stream would be called by the driver", got)
	}
}
