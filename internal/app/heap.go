package app

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// heapFloor is the heap size, in bytes, below which garbage is not collected. A lookup
	// of 50 keys leaves some 150 KiB of garbage and 2 MiB are in use, so that the runtime
	// by itself collects once in 14 lookups, at 30 % of the proxy's CPU. With 32 MiB that
	// is 3 %, and the process stays below 64 MiB.
	heapFloor = 32 << 20
	// floorShare limits the floor to 1/floorShare of the memory limit.
	floorShare = 4
	// runtimeMinimum is the heap size, in bytes, below which the runtime does not collect
	// at 100 percent. It is proportional to the percentage.
	runtimeMinimum = 4 << 20
)

// heapKeeper makes the runtime collect garbage once the heap is twice what is in use, as it
// does by itself, but not before the heap has reached heapFloor.
type heapKeeper struct {
	mu      sync.Mutex
	stopped bool
	// usual is the percentage that the runtime started with, percent the current one.
	usual, percent int
	samples        []metrics.Sample
}

// keepHeap sets the percentage after each collection, until the returned function is
// called. A runtime that does not collect (GOGC=off) is left alone.
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

// collected sets the percentage from what is in use. A finalizer of a new, unreachable
// object calls it again after the next collection.
func (k *heapKeeper) collected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	metrics.Read(k.samples)
	value := func(i int) uint64 { return k.samples[i].Value.Uint64() }
	next := gcPercent(value(0), value(1)+value(2), value(3), k.usual)
	// Setting it stops the world: changes below an eighth are not worth that.
	if d := next - k.percent; max(d, -d) > k.percent/8 {
		debug.SetGCPercent(next)
		k.percent = next
	}
	runtime.SetFinalizer(&collection{k}, func(c *collection) { c.keeper.collected() })
}

// collection is the object whose finalizer reports the next collection.
type collection struct{ keeper *heapKeeper }

// gcPercent returns the percentage at which the runtime collects once the heap has reached
// the floor, but at least the usual one. live is the heap in use, roots what else is
// scanned (the percentage counts both), and limit the memory limit, all in bytes.
//
// Source: the Go runtime's mgcpacer.go, heapGoalInternal and setGCPercent.
func gcPercent(live, roots, limit uint64, usual int) int {
	floor := min(heapFloor, limit/floorShare)
	// Above this, the runtime's own minimum would exceed the floor.
	most := 100 * float64(floor) / runtimeMinimum
	wanted := 100 * (float64(floor) - float64(live)) / math.Max(float64(live+roots), 1)
	return max(int(math.Min(wanted, most)), usual)
}
