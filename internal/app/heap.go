package app

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// heapFloor is the size of the heap, in bytes, below which garbage is not collected. A
	// lookup of 50 keys leaves some 150 KiB of garbage and 2 MiB are in use, so that the
	// runtime by itself collects once in 14 lookups, at 30 % of the proxy's CPU. At 32 MiB
	// that is 3 %, and the process stays below 64 MiB.
	heapFloor = 32 << 20
	// floorShare is the share of the memory limit that the floor may have: 1 in so many.
	floorShare = 4
	// runtimeMinimum is the heap, in bytes, below which the runtime does not collect at 100
	// percent; it grows with the percentage.
	runtimeMinimum = 4 << 20
)

// heapKeeper has the runtime collect garbage once the heap is twice what is in use, as it
// does by itself, but not before it has reached heapFloor.
type heapKeeper struct {
	mu      sync.Mutex
	stopped bool
	// usual is the percentage of the runtime by itself, percent the one in use.
	usual, percent int
	samples        []metrics.Sample
}

// keepHeap begins to set the percentage after each collection, until the returned function
// is called. A runtime that does not collect (GOGC=off) is left alone.
func keepHeap() (stop func()) {
	usual := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(usual)
	if usual[0].Value.Uint64() > math.MaxInt32 {
		return func() {}
	}
	k := &heapKeeper{usual: int(usual[0].Value.Uint64()), samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
		{Name: "/gc/gomemlimit:bytes"},
	}}
	k.percent = k.usual
	k.collected()
	return k.stop
}

func (k *heapKeeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	debug.SetGCPercent(k.usual)
}

// collected sets the percentage by what is in use, and has itself called after the next
// collection: that finds a new object, which nothing refers to.
func (k *heapKeeper) collected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	metrics.Read(k.samples)
	value := func(i int) uint64 { return k.samples[i].Value.Uint64() }
	next := gcPercent(value(0), value(1)+value(2), value(3), k.usual)
	// Setting it stops the world: not for less than an eighth.
	if d := next - k.percent; max(d, -d) > k.percent/8 {
		debug.SetGCPercent(next)
		k.percent = next
	}
	runtime.SetFinalizer(&collection{k}, func(c *collection) { c.keeper.collected() })
}

// collection is found by the next collection of garbage.
type collection struct{ keeper *heapKeeper }

// gcPercent returns the percentage at which the runtime collects once the heap has reached
// the floor, at least the usual one. Live is what is in use and roots are what else is
// scanned (the percentage counts both), limit is the memory limit, all in bytes.
//
// Source: the Go runtime's mgcpacer.go, heapGoalInternal and setGCPercent.
func gcPercent(live, roots, limit uint64, usual int) int {
	floor := min(heapFloor, limit/floorShare)
	// Beyond, the runtime's own minimum exceeds the floor.
	most := 100 * float64(floor) / runtimeMinimum
	wanted := 100 * (float64(floor) - float64(live)) / math.Max(float64(live+roots), 1)
	return max(int(math.Min(wanted, most)), usual)
}
