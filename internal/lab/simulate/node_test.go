package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestQueueOfANode(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		speeds []stretch
		sent   []time.Duration
		want   []time.Duration
	}{
		"two threads, the third waits": {
			[]stretch{{0, 1}}, []time.Duration{0, 0, 0}, []time.Duration{12 * ms, 12 * ms, 22 * ms},
		},
		"a pause stops both": {
			[]stretch{{0, 1}, {5 * ms, 0}, {25 * ms, 1}}, []time.Duration{0, 10 * ms}, []time.Duration{32 * ms, 36 * ms},
		},
		"a limp takes ten times as long": {
			[]stretch{{0, 0.1}, {61 * ms, 1}}, []time.Duration{0}, []time.Duration{66 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{
				model: nodeModel{fixed: 10 * ms, wire: ms}, free: make([]time.Duration, 2), speeds: tt.speeds,
			}
			var got []time.Duration
			for _, at := range tt.sent {
				got = append(got, n.serve(at, nil))
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestTroublesComeAsOftenAsTheModelSays(t *testing.T) {
	m := smallNode().trouble
	const until = 100 * time.Hour
	var still, limping time.Duration
	all := append(m.stretches(until, rand.New(rand.NewPCG(1, 2))), stretch{until, 1})
	for i, s := range all[:len(all)-1] {
		switch s.speed {
		case 0:
			still += all[i+1].from - s.from
		case 1 / m.limpFactor:
			limping += all[i+1].from - s.from
		}
	}
	// A lognormal of median 60 ms and sigma 0.6 has a mean of 72 ms.
	assert.InDelta(t, 0.0718/10.0718, still.Hours()/until.Hours(), 0.0003)
	assert.InDelta(t, 2.0/102, limping.Hours()/until.Hours(), 0.002)
}

func TestLatenciesOfThePaperMeetItsTwoPoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const lookups = 20_000
	slowest := make([]time.Duration, lookups)
	late := 0
	for i := range slowest {
		for range paperServers {
			d := paperLatency(1 - rng.Float64())
			slowest[i] = max(slowest[i], d)
			if d > paperDelay {
				late++
			}
		}
	}
	slices.Sort(slowest)
	assert.InDelta(t, paperExtra, float64(late)/(lookups*paperServers), 0.0005)
	p999 := slowest[lookups*999/1000]
	assert.Less(t, math.Abs(float64(p999)/float64(paperTail)-1), 0.3, "p99.9 of the slowest: %s", p999)
}
