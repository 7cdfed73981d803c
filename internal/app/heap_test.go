package app

import (
	"math"
	"runtime"
	"runtime/debug"
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

// heapGoal returns the heap size at which the runtime will collect, in bytes, and the
// percentage in use.
func heapGoal() (bytes, percent uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// collect collects garbage, and waits until the finalizers that it started have returned:
// those of the next collection run only after them.
func collect() {
	for range 2 {
		ran := make(chan struct{})
		runtime.SetFinalizer(&struct{ ran chan struct{} }{ran}, func(s *struct{ ran chan struct{} }) { close(s.ran) })
		runtime.GC()
		<-ran
	}
}

// deep calls a function on a stack of at least that many bytes.
func deep(bytes int, call func()) byte {
	var frame [8 << 10]byte
	frame[bytes%len(frame)] = 1
	if bytes -= len(frame); bytes > 0 {
		return frame[0] + deep(bytes, call)
	}
	call()
	return frame[1]
}

func TestTheHeapIsKeptAtTheFloor(t *testing.T) {
	runtime.GC()
	_, usual := heapGoal()

	stop := keepHeap()
	keeps := func(size, floor int) {
		t.Helper()
		held := make([]byte, size)
		runtime.GC()
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			goal, percent := heapGoal()
			assert.InDelta(t, floor, goal, 0.35*float64(floor), "%d bytes in use, %d percent", size, percent)
		}, 5*time.Second, time.Millisecond)
		runtime.KeepAlive(held)
	}
	// What is in use changes from one collection to the next; the goal must follow.
	for _, size := range []int{0, 8 << 20, 40 << 20, 0} {
		keeps(size, max(heapFloor, 2*size))
	}
	// The stack counts towards the percentage, and must not make the heap larger.
	deep(16<<20, func() { keeps(8<<20, heapFloor) })
	func() {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
		debug.FreeOSMemory()
		keeps(0, 16<<20)
	}()

	stop()
	held := make([]byte, 8<<20)
	collect()
	_, percent := heapGoal()
	assert.Equal(t, usual, percent, "after the end")
	runtime.KeepAlive(held)
}

func TestARuntimeThatDoesNotCollectIsLeftAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	_, off := heapGoal()
	defer keepHeap()()
	collect()
	_, percent := heapGoal()
	assert.Equal(t, off, percent)
}
