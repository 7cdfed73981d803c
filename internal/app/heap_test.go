package app

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGarbageIsNotCollectedBelowTheFloor(t *testing.T) {
	const mib = 1 << 20
	tests := map[string]struct {
		live, roots, limit uint64
		usual, want        int
	}{
		"before the first collection":         {0, 0, math.MaxInt64, 100, 800},
		"a small heap":                        {4 * mib, 1 * mib, math.MaxInt64, 100, 560},
		"half of the floor":                   {16 * mib, 0, math.MaxInt64, 100, 100},
		"more than half of the floor":         {24 * mib, 1 * mib, math.MaxInt64, 100, 100},
		"more than the floor":                 {400 * mib, 1 * mib, math.MaxInt64, 100, 100},
		"an operator wants more":              {4 * mib, 1 * mib, math.MaxInt64, 900, 900},
		"an operator wants less":              {16 * mib, 0, math.MaxInt64, 50, 100},
		"a memory limit of 64 MiB":            {4 * mib, 1 * mib, 64 * mib, 100, 240},
		"a memory limit that is used already": {40 * mib, 1 * mib, 64 * mib, 100, 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, gcPercent(tt.live, tt.roots, tt.limit, tt.usual))
		})
	}
}

// heapGoal returns the heap at which the runtime will collect, in bytes, and the percentage
// in use.
func heapGoal() (bytes, percent uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

func TestTheHeapIsKeptAtTheFloor(t *testing.T) {
	runtime.GC()
	_, usual := heapGoal()

	stop := keepHeap()
	// What is in use differs from one collection to the next: each is followed.
	var held []byte
	for _, size := range []int{0, 8 << 20, 40 << 20, 0} {
		held = make([]byte, size)
		runtime.GC()
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			goal, percent := heapGoal()
			floor := max(heapFloor, 2*size)
			assert.InDelta(t, floor, goal, 0.35*float64(floor), "%d bytes in use, %d percent", size, percent)
		}, 5*time.Second, time.Millisecond)
		runtime.KeepAlive(held)
	}

	stop()
	runtime.GC()
	_, percent := heapGoal()
	assert.Equal(t, usual, percent, "after the end")
}
