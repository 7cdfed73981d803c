package register

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const second = time.Second

func TestHistoriesAreJudged(t *testing.T) {
	// A read ends half a second after it began.
	found := func(version int64, at time.Duration) Read { return Read{version, at, at + second/2} }
	one := Write{Version: 1, Begin: 1 * second, End: 2 * second}
	two := Write{Version: 2, Begin: 5 * second, End: 6 * second}
	unknown, deletion := two, Write{Version: 2, Null: true, Begin: 5 * second, End: 6 * second}
	unknown.End = 0
	three := Write{Version: 3, Begin: 10 * second, End: 11 * second}
	lives := Write{Version: 1, Life: 3 * second, Begin: 1 * second, End: 2 * second} // until 3 to 7 s
	livesUnknown := lives
	livesUnknown.End = 0
	for name, c := range map[string]struct {
		writes []Write
		reads  []Read
		want   Verdict
	}{
		"nothing was written":                     {nil, []Read{found(0, 0)}, Linearizable},
		"a value that nobody wrote":               {[]Write{one}, []Read{found(7, 3*second)}, Violated},
		"a value before it was written":           {[]Write{one}, []Read{found(1, 0)}, Violated},
		"one write after the other":               {[]Write{one, two}, []Read{found(0, 0), found(1, 3*second), found(2, 7*second)}, Linearizable},
		"stale: the write was acknowledged":       {[]Write{one, two}, []Read{found(1, 7*second)}, Violated},
		"stale: nothing where something is":       {[]Write{one}, []Read{found(0, 3*second)}, Violated},
		"either, while it is written":             {[]Write{one, two}, []Read{found(1, 5*second), {2, 5 * second, 6 * second}, found(1, 5*second)}, Linearizable},
		"it goes back while it is written":        {[]Write{one, two}, []Read{found(2, 5*second), {1, 5*second + 600*time.Millisecond, 6 * second}}, Violated},
		"a deletion":                              {[]Write{one, deletion}, []Read{found(1, 3*second), found(0, 7*second)}, Linearizable},
		"a deletion is undone":                    {[]Write{one, deletion}, []Read{found(0, 7*second), found(1, 8*second)}, Violated},
		"a deletion is missed":                    {[]Write{one, deletion}, []Read{found(1, 7*second)}, Violated},
		"an unknown write is late":                {[]Write{one, unknown}, []Read{found(1, 20*second), found(2, 30*second)}, Linearizable},
		"an unknown write never comes":            {[]Write{one, unknown}, []Read{found(1, 30*second)}, Linearizable},
		"an unknown write goes away":              {[]Write{one, unknown}, []Read{found(2, 20*second), found(1, 30*second)}, Violated},
		"an unknown write after its successor":    {[]Write{one, unknown, three}, []Read{found(1, 9*second), found(3, 12*second)}, Linearizable},
		"an unknown write hides its successor":    {[]Write{one, unknown, three}, []Read{found(3, 12*second), found(2, 30*second)}, Violated},
		"it expires":                              {[]Write{lives}, []Read{found(1, 2*second), found(0, 8*second)}, Linearizable},
		"it may expire early":                     {[]Write{lives}, []Read{found(0, 3*second)}, Linearizable},
		"it expires too early":                    {[]Write{lives}, []Read{found(0, 2*second+1)}, Violated},
		"it expires too late":                     {[]Write{lives}, []Read{found(1, 8*second)}, Violated},
		"it expires and is back":                  {[]Write{lives}, []Read{found(0, 4*second), found(1, 5*second)}, Violated},
		"what it overwrote is back":               {[]Write{{Version: 1, Begin: 0, End: 1}, {Version: 2, Life: 3 * second, Begin: second, End: 2 * second}}, []Read{found(1, 8*second)}, Violated},
		"it was overwritten before it expired":    {[]Write{lives, {Version: 2, Begin: 2 * second, End: 3 * second}}, []Read{found(2, 9*second)}, Linearizable},
		"an expiry takes what overwrote it":       {[]Write{lives, {Version: 2, Begin: 2 * second, End: 3 * second}}, []Read{found(0, 9*second)}, Violated},
		"an unknown write expires when it likes":  {[]Write{livesUnknown}, []Read{found(1, 20*second), found(0, 30*second)}, Linearizable},
		"an unknown write is back after its end":  {[]Write{livesUnknown}, []Read{found(1, 20*second), found(0, 30*second), found(1, 40*second)}, Violated},
		"two reads see two expiries the same way": {[]Write{lives, {Version: 2, Life: 3 * second, Begin: 8 * second, End: 9 * second}}, []Read{found(0, 7*second), found(2, 10*second), found(0, 15*second)}, Linearizable},
	} {
		t.Run(name, func(t *testing.T) {
			h := History{c.writes, c.reads}
			assert.Equal(t, c.want, h.Check(10*second))
			first, why := h.Explain(second, 10*second)
			assert.Equal(t, c.want == Violated, first != Read{}, why)
		})
	}
}

func TestAViolationIsExplainedByItsRead(t *testing.T) {
	h := History{
		Writes: []Write{{Version: 1, Begin: 1 * second, End: 2 * second}, {Version: 2, Null: true, Life: 0, Begin: 3 * second, End: 4 * second}, {Version: 3, Life: second, Begin: 90 * second}},
		Reads:  []Read{{0, 8 * second, 9 * second}, {1, 5 * second, 6 * second}, {0, 6 * second, 7 * second}, {1, 10 * second, 11 * second}},
	}
	first, why := h.Explain(2*second, second)
	assert.Equal(t, Read{1, 5 * second, 6 * second}, first)
	assert.Equal(t, "    3.0000     4.0000 delete 2\n    5.0000     6.0000 read 1\n", why)
}

// TestShortcutsChangeNoVerdict compares verdicts with those of the plain register, without
// shortcuts, on small random histories.
func TestShortcutsChangeNoVerdict(t *testing.T) {
	type cell struct {
		of   int64
		null bool
	}
	plain := porcupine.Model{
		Init: func() any { return cell{null: true} },
		Step: func(state, in, out any) (bool, any) {
			now := state.(cell)
			switch in := in.(type) {
			case cell:
				if in.of > now.of {
					return true, in
				}
			case int64:
				now.null = now.null || now.of == in
			default:
				return now.null && out == int64(0) || !now.null && out == now.of, now
			}
			return true, now
		},
	}
	verdicts := map[Verdict]int{}
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		span := func(most int) time.Duration { return time.Duration(1+rng.IntN(most)) * second / 2 }
		var h History
		var ops []porcupine.Operation
		add := func(in, out any, from, to time.Duration) {
			ops = append(ops, porcupine.Operation{Input: in, Output: out, Call: int64(from), Return: int64(to)})
		}
		at := time.Duration(0)
		for n := range int64(1 + rng.IntN(4)) {
			w := Write{Version: n + 1, Null: rng.IntN(4) == 0, Begin: at + span(3)}
			at = w.Begin + span(3)
			if end := open; rng.IntN(3) == 0 {
				add(cell{w.Version, w.Null}, nil, w.Begin, end)
			} else {
				w.End = at
				add(cell{w.Version, w.Null}, nil, w.Begin, w.End)
			}
			if !w.Null && rng.IntN(3) == 0 {
				w.Life = second
				to := open
				if w.End > 0 {
					to = w.End + w.Life + expiryLate
				}
				add(w.Version, nil, w.Begin+w.Life-expiryEarly, to)
			}
			h.Writes = append(h.Writes, w)
		}
		for range rng.IntN(6) {
			r := Read{Version: int64(rng.IntN(len(h.Writes) + 1)), Begin: span(int(at/second)*2 + 6)}
			r.End = r.Begin + span(4)
			h.Reads = append(h.Reads, r)
			add(nil, r.Version, r.Begin, r.End)
		}
		want := porcupine.CheckOperationsTimeout(plain, ops, 0)
		verdicts[want]++
		require.Equal(t, want, h.Check(0), "%d: %+v", seed, h)
	}
	assert.Greater(t, min(verdicts[Linearizable], verdicts[Violated]), 2000, verdicts)
}

// TestLongHistoriesAreDecided checks a history of a thousand writes, a tenth of them with unknown
// outcome, and twenty reads of each; and the same with one read that goes back at the end.
func TestLongHistoriesAreDecided(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h History
	value := int64(0)
	for n := range int64(1000) {
		at := time.Duration(n) * second
		w := Write{Version: n + 1, Null: n%7 == 0, Begin: at, End: at + second/2}
		if rng.IntN(10) == 0 {
			w.End = 0
		}
		h.Writes = append(h.Writes, w)
		if w.End != 0 || rng.IntN(2) == 0 { // takes effect in the middle of its interval
			for range 5 {
				begin := at + time.Duration(rng.Int64N(int64(second/4)))
				h.Reads = append(h.Reads, Read{value, begin, begin + second/8})
			}
			value = w.Version
			if w.Null {
				value = 0
			}
		}
		for range 15 {
			begin := at + second/2 + time.Duration(rng.Int64N(int64(second/4)))
			h.Reads = append(h.Reads, Read{value, begin, begin + second/5})
		}
	}
	assert.Equal(t, Linearizable, h.Check(time.Minute))
	h.Reads = append(h.Reads, Read{990, 1002 * second, 1003 * second})
	assert.Equal(t, Violated, h.Check(time.Minute))
}
