package status

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// sourceFunc is a function that implements Source.
type sourceFunc func(*Snapshot)

func (f sourceFunc) Fill(s *Snapshot) { f(s) }

// histories counts the calls of History.
var histories atomic.Int64

func (f sourceFunc) History(table string) []Step {
	histories.Add(1)
	return []Step{{Window: Window{Count: int64(len(table))}}}
}

func shop(s *Snapshot) { s.Tables = append(s.Tables, Table{Name: "shop.a", SLO: &SLO{}}) }

func TestLookupsAreCountedByTableAndClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(sourceFunc(shop))
		b.Observe(&Lookup{Table: "shop.a", Client: "x", Keys: 50, Code: "OK"})
		b.Observe(&Lookup{Table: "shop.a", Client: "y", Keys: 3, Code: "UNAVAILABLE"})
		b.Observe(&Lookup{Client: "y", Keys: 1, Code: "CANCELLED"})
		s := b.Snapshot()
		assert.Equal(t, Count{Lookups: 3, Keys: 54, Failed: 1}, s.Total)
		assert.Equal(t, []Table{{Name: "shop.a", Count: Count{2, 53, 1}, SLO: &SLO{}}, {Name: UnknownName, Count: Count{1, 1, 0}}}, s.Tables)
		assert.Equal(t, []Client{{"x", Count{1, 50, 0}}, {"y", Count{2, 4, 1}}}, s.Clients)
	})
}

func TestReadersOfAMomentShareASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		before := histories.Load()
		b := New(sourceFunc(func(s *Snapshot) { made++; shop(s) }))
		for range 10 {
			b.Snapshot()
			b.WithHistory("shop.a")
		}
		assert.Equal(t, 1, made)
		assert.Equal(t, before+1, histories.Load())
		time.Sleep(Freshness)
		b.Snapshot()
		assert.Equal(t, 2, made)
	})
}

func TestHistoryIsOfTheTableThatWasAskedForAndOfThatAnswerAlone(t *testing.T) {
	b := New(sourceFunc(shop))
	assert.Len(t, b.WithHistory("shop.a").Tables[0].SLO.History, 1)
	assert.Empty(t, b.Snapshot().Tables[0].SLO.History)
	assert.Empty(t, b.WithHistory("nope").Tables[0].SLO.History)
}

func TestNamesAreBoundedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(nil)
		for i := range mostNames + 100 {
			b.Observe(&Lookup{Table: strconv.Itoa(i), Client: "c", Keys: 1, Code: "OK"})
		}
		s := b.Snapshot()
		assert.LessOrEqual(t, len(s.Tables), mostNames+1)
		var sum int64
		for _, table := range s.Tables {
			sum += table.Lookups
		}
		assert.Equal(t, int64(mostNames+100), sum, "none is lost")
		time.Sleep(idle + 2*time.Second)
		assert.Empty(t, b.Snapshot().Tables)
		time.Sleep(Freshness)
		b.Observe(&Lookup{Table: "new", Client: "d", Keys: 1, Code: "OK"})
		s = b.Snapshot()
		assert.Equal(t, []Client{{"d", Count{1, 1, 0}}}, s.Clients)
		assert.Equal(t, []Table{{Name: "new", Count: Count{1, 1, 0}}}, s.Tables)
		assert.Equal(t, int64(mostNames+101), s.Total.Lookups)
	})
}

func TestCountsOfATableThatIsShownStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(sourceFunc(shop))
		b.Observe(&Lookup{Table: "shop.a", Client: "c", Keys: 1, Code: "OK"})
		time.Sleep(idle + 2*time.Second)
		s := b.Snapshot()
		require.Len(t, s.Tables, 1)
		assert.Equal(t, Count{1, 1, 0}, s.Tables[0].Count)
		assert.Empty(t, s.Clients)
	})
}

func TestProblemsOfAKindAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(nil)
		begin := time.Now().UTC()
		for range 1000 {
			b.Observe(&Lookup{Table: "a.b", Client: "c", Keys: 50, Unanswered: 3, Code: "PARTIAL", Duration: 125 * time.Millisecond})
			time.Sleep(10 * time.Millisecond)
		}
		b.Observe(&Lookup{Table: "a.b", Client: "d", Keys: 1, Unanswered: 1, Code: "PARTIAL"})
		errors := b.Snapshot().Errors
		require.Len(t, errors, 2)
		assert.Equal(t, "d", errors[0].Client, "the latest first")
		assert.Equal(t, int64(1000), errors[1].Count)
		assert.Equal(t, begin, errors[1].First)
		assert.Equal(t, "3 of 50 keys unanswered after 125ms", errors[1].Detail)

		time.Sleep(sameEvent + time.Second)
		b.Observe(&Lookup{Table: "a.b", Client: "c", Keys: 1, Unanswered: 1, Code: "PARTIAL"})
		errors = b.Snapshot().Errors
		require.Len(t, errors, 2)
		assert.Equal(t, int64(1), errors[0].Count, "after a minute it begins anew")

		for i := range 2 * mostEvents {
			b.Observe(&Lookup{Table: fmt.Sprint("t", i), Code: "INTERNAL"})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(Freshness)
		errors = b.Snapshot().Errors
		assert.Len(t, errors, mostEvents)
		assert.Equal(t, fmt.Sprint("t", 2*mostEvents-1), errors[0].Table)
	})
}

// TestProblemsHoldNoSecret logs what must not be shown.
func TestProblemsHoldNoSecret(t *testing.T) {
	b := New(nil)
	var out bytes.Buffer
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	log := slog.New(b.Log(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
	log.Debug("not this")
	log.Info("nor this", "host", "h")
	log.With("token", "s3cret", "client", "checkout").Warn("request refused", "password", "s3cret", "key", "sku-1", "stack", "s3cret", "reason", "tab\nle\x1b[31m")
	log.WithGroup("request").Warn("grouped", "reason", "s3cret")
	log.Info("host changed state", "host", "10.0.0.1:9042", "state", "ejected", "was", "healthy")
	log.Error("long", "error", strings.Repeat("é", mostText))
	assert.NotContains(t, out.String(), "refused", "the level of the log is its own")
	assert.Contains(t, out.String(), "long")
	var all strings.Builder
	for _, e := range b.Snapshot().Errors {
		fmt.Fprintln(&all, e.Level, e.Message, e.Detail)
		assert.LessOrEqual(t, len(e.Detail), mostText+10)
	}
	assert.NotContains(t, all.String(), "s3cret")
	assert.NotContains(t, all.String(), "sku-1")
	assert.NotContains(t, all.String(), "this")
	assert.Contains(t, all.String(), "warn request refused client=checkout reason=tab le [31m\n")
	assert.Contains(t, all.String(), "info host changed state host=10.0.0.1:9042 state=ejected was=healthy\n")
	assert.True(t, slog.New(b.Log(slog.DiscardHandler)).Enabled(context.Background(), slog.LevelWarn))
	assert.False(t, log.Enabled(context.Background(), slog.LevelDebug), "debug costs nothing")
}

func TestSnapshotsAddUpWhileLookupsGoOn(t *testing.T) {
	b := New(sourceFunc(shop))
	log := slog.New(b.Log(slog.DiscardHandler))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 500 {
				b.Observe(&Lookup{Table: "shop.a", Client: strconv.Itoa(i), Keys: 2, Code: []lookup.Code{lookup.CodeOK, lookup.CodePartial}[j%2]})
				log.Warn("w", "host", i)
			}
		})
		all.Go(func() {
			for range 50 {
				b.mu.Lock()
				b.latest = nil
				b.mu.Unlock()
				s := b.WithHistory("shop.a")
				assert.LessOrEqual(t, s.Tables[0].Failed, s.Tables[0].Lookups)
			}
		})
	}
	all.Wait()
	b.latest = nil
	s := b.Snapshot()
	assert.Equal(t, Count{2000, 4000, 1000}, s.Total)
	assert.Equal(t, s.Total, s.Tables[0].Count)
	warned := map[string]int64{}
	for _, e := range s.Errors {
		if e.Message == "w" {
			warned[e.Host] = e.Count
		}
	}
	assert.Equal(t, map[string]int64{"0": 500, "1": 500, "2": 500, "3": 500}, warned)
}

func TestProblemsOfHostsAndReasonsAreApart(t *testing.T) {
	b := New(nil)
	log := slog.New(b.Log(slog.DiscardHandler))
	log.Info("host changed state", "host", "10.0.0.1:9042", "state", "suspect")
	log.With("host", "10.0.0.2:9042").Info("host changed state", "state", "ejected")
	for _, reason := range []string{"forbidden_table", "forbidden_table", "client_rate"} {
		b.Observe(&Lookup{Table: "shop.a", Client: "c", Keys: 1, Code: lookup.CodePermissionDenied, Reason: reason})
	}
	counts := map[string]int64{}
	for _, e := range b.Snapshot().Errors {
		counts[e.Host+e.Reason] = e.Count
	}
	assert.Equal(t, map[string]int64{"10.0.0.1:9042": 1, "10.0.0.2:9042": 1, "forbidden_table": 2, "client_rate": 1}, counts)
}

func BenchmarkObserve(b *testing.B) {
	board := New(nil)
	l := &Lookup{Table: "shop.products", Client: "checkout", Keys: 50, Code: "OK"}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			board.Observe(l)
		}
	})
}
