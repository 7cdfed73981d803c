package timeline

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden files anew")

const ms = time.Millisecond

var six = []Host{
	{Addr: "10.0.0.1:9042", DC: "dc1", Rack: "r1"},
	{Addr: "10.0.0.2:9042", DC: "dc1", Rack: "r2"},
	{Addr: "10.0.0.3:9042", DC: "dc1", Rack: "r3", Avoided: "suspect"},
	{Addr: "10.0.0.4:9042", DC: "dc1", Rack: "r1"},
	{Addr: "10.0.0.5:9042", DC: "dc1", Rack: "r2"},
	{Addr: "10.0.0.10:9042", DC: "dc1", Rack: "r3", Avoided: "ejected"},
}

func replicas(hosts ...int) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = six[h].Addr
	}
	return out
}

// trouble returns a lookup with all that can happen: a hedge that won, a
// cancelled attempt, a fail-over, a denied hedge, and an attempt that never
// ended.
func trouble() *Lookup {
	l := &Lookup{
		Hosts:    six,
		Groups:   []Group{{six[0].Addr}, {six[1].Addr}, {six[3].Addr}, {six[4].Addr}},
		Elapsed:  50 * ms,
		Deadline: 50 * ms, SoftDeadline: 20 * ms,
		Attempts: []Attempt{
			{Host: six[0].Addr, Kind: "first", Keys: []int{0, 1, 2}, End: 3410 * time.Microsecond, HedgeAfter: 15 * ms, Outcome: "won", StatementKeys: 120},
			{Host: six[1].Addr, Kind: "first", Keys: []int{3, 4}, End: 17730 * time.Microsecond, HedgeAfter: 15 * ms, Outcome: "cancelled"},
			{Host: six[3].Addr, Kind: "first", Keys: []int{5}, End: 1200 * time.Microsecond, HedgeAfter: 15 * ms, Outcome: "failed", Err: "disconnected"},
			{Host: six[4].Addr, Kind: "first", Keys: []int{6}, End: 50 * ms, HedgeAfter: 15 * ms, Outcome: "pending", NotHedged: "budget"},
			{Host: six[0].Addr, Kind: "failover", Keys: []int{5}, Start: 1210 * time.Microsecond, End: 4 * ms, HedgeAfter: 15 * ms, Outcome: "won"},
			{Host: six[3].Addr, Kind: "hedge", Keys: []int{3, 4}, Start: 15 * ms, End: 17720 * time.Microsecond, HedgeAfter: 60 * ms, Outcome: "won"},
		},
	}
	names := []string{"sku-00001", "sku-00002", "東京タワー", "café ☕️ 👨‍👩‍👧", "line\nbreak\x1b[31m", "sku-00006", "a-key-that-is-far-too-long-for-the-column-that-it-stands-in-at-80", "sku-shed"}
	groups := []int{0, 0, 0, 1, 1, 2, 3, -1}
	for i, name := range names {
		l.Keys = append(l.Keys, Key{Name: name, Token: int64(-8+i*2)<<59 + 12345, Group: groups[i], Replicas: replicas(i%6, (i+1)%6, (i+2)%6)})
	}
	return l
}

func quick() *Lookup {
	return &Lookup{
		Hosts: six[:3], Groups: []Group{{six[1].Addr}}, Elapsed: 2400 * time.Microsecond, Deadline: 125 * ms,
		Keys: []Key{{Name: "user-0007", Token: -4954589282194958971, Replicas: replicas(1, 2, 0)}},
		Attempts: []Attempt{{Host: six[1].Addr, Kind: "first", Keys: []int{0}, Start: 20 * time.Microsecond, End: 2310 * time.Microsecond,
			HedgeAfter: 15 * ms, Outcome: "won"}},
	}
}

func draw(t *testing.T, l *Lookup, o Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Draw(&b, l, o))
	return b.String()
}

func TestDrawingsAreAsTheyWereApproved(t *testing.T) {
	planned := trouble()
	planned.Attempts, planned.Stressed = nil, true
	for name, l := range map[string]*Lookup{"trouble": trouble(), "quick": quick(), "planned": planned} {
		for _, wide := range []int{80, 120} {
			file := filepath.Join("testdata", fmt.Sprintf("%s-%d.txt", name, wide))
			t.Run(filepath.Base(file), func(t *testing.T) {
				got := draw(t, l, Options{Width: wide})
				if *update {
					require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				assert.Equal(t, string(want), got)
			})
		}
	}
}

func TestDrawingsFitTheirWidth(t *testing.T) {
	for wide := 60; wide <= 200; wide++ {
		l := trouble()
		l.Stressed = true
		for line := range strings.SplitSeq(draw(t, l, Options{Width: wide}), "\n") {
			assert.LessOrEqual(t, uniseg.StringWidth(line), wide, line)
		}
	}
}

func TestColourChangesNothingButColour(t *testing.T) {
	painted := draw(t, trouble(), Options{Width: 100, Colour: true})
	assert.Contains(t, painted, terminal.Paint("won", terminal.Green, true))
	assert.Contains(t, painted, terminal.Paint("failed", terminal.Red, true))
	bare := terminal.Bare(painted)
	trim := func(s string) string {
		lines := strings.Split(s, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		return strings.Join(lines, "\n")
	}
	assert.Equal(t, draw(t, trouble(), Options{Width: 100}), trim(bare))
	assert.NotContains(t, draw(t, trouble(), Options{Width: 100}), "\x1b", "neither of its own nor of a key")
}

func TestEverySubQueryIsOnTheChart(t *testing.T) {
	out := draw(t, trouble(), Options{Width: 100})
	for _, word := range []string{"won", "failed", "cancelled", "pending", "└ D hedge", "└ A failover", "failed: disconnected", "not hedged: the budget is spent", "asked of nobody"} {
		assert.Contains(t, out, word)
	}
}

func TestASpanOfAnyLengthIsDrawn(t *testing.T) {
	for _, end := range []time.Duration{0, 1, time.Microsecond, ms, time.Second, time.Hour} {
		l := quick()
		l.Attempts[0].Start, l.Attempts[0].End, l.Elapsed = 0, end, end
		assert.Contains(t, draw(t, l, Options{Width: 80}), "won", end)
	}
}

func TestManyHostsHaveLettersOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 1000 {
		assert.False(t, seen[letter(i)])
		seen[letter(i)] = true
	}
	assert.Equal(t, []string{"A", "Z", "AA", "AZ", "BA"}, []string{letter(0), letter(25), letter(26), letter(51), letter(52)})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestAWriterThatFailsIsReported(t *testing.T) {
	assert.ErrorContains(t, Draw(broken{}, quick(), Options{}), "gone")
}

func TestReadsOfOtherLookupsAreNamed(t *testing.T) {
	l := &Lookup{
		Hosts: six[:1], Groups: []Group{{six[0].Addr}}, Elapsed: 5 * ms, Deadline: 50 * ms,
		Keys: []Key{{Name: "mine", Group: 0, Replicas: replicas(0)}, {Name: "theirs", Group: -1, Replicas: replicas(0)}},
		Attempts: []Attempt{
			{Host: six[0].Addr, Kind: "first", Keys: []int{0}, End: 5 * ms, HedgeAfter: 15 * ms, Outcome: "won"},
			{Kind: "coalesced", Keys: []int{1}, End: 2 * ms, HedgeAfter: -1, Outcome: "won"},
		},
	}
	var out bytes.Buffer
	require.NoError(t, Draw(&out, l, Options{Width: 80}))
	assert.Contains(t, out.String(), "1 key read by another lookup at the same time\n    theirs")
	assert.Regexp(t, `(?m)^coalesced +1 `, out.String())
	assert.NotContains(t, out.String(), "nobody")
	assert.Regexp(t, `(?m)^ *A +`+regexp.QuoteMeta(six[0].Addr), out.String(), "the attempt of another lookup has no host")
}

func TestAQuorumOfReplicasIsDrawn(t *testing.T) {
	l := &Lookup{
		Hosts: six, Groups: []Group{{six[0].Addr}, {six[1].Addr}}, Elapsed: 5 * ms,
		Keys: []Key{
			{Name: "sku-1", Replicas: replicas(0, 1, 3), Group: 0, Groups: []int{0, 1}, Compared: "matched"},
			{Name: strings.Repeat("a-long-key", 9), Replicas: replicas(0, 1, 3), Group: 0, Groups: []int{0, 1}, Compared: "fallback_absent"},
		},
		Attempts: []Attempt{
			{Host: six[0].Addr, Kind: "first", Keys: []int{0, 1}, End: ms, HedgeAfter: 15 * ms, Outcome: "won"},
			{Host: six[1].Addr, Kind: "first", Keys: []int{0, 1}, End: ms, HedgeAfter: 15 * ms, Outcome: "won"},
			{Host: six[3].Addr, Kind: "reread", Keys: []int{1}, Start: ms, End: 5 * ms, HedgeAfter: 15 * ms, Outcome: "won"},
		},
	}
	var out bytes.Buffer
	require.NoError(t, Draw(&out, l, Options{Width: 80}))
	assert.Equal(t, 2, strings.Count(out.String(), "sku-1"), "once for each group")
	assert.Equal(t, 2, strings.Count(out.String(), "A B D  fallback_absent"))
	assert.Contains(t, out.String(), "└ D")
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, terminal.Width(strings.TrimRight(line, "\n")), 80, line)
	}
	l = &Lookup{Hosts: six, Fallback: "fallback_ring"}
	out.Reset()
	require.NoError(t, Draw(&out, l, Options{Width: 80}))
	assert.Contains(t, out.String(), "Read through coordinators: fallback_ring.")
}
