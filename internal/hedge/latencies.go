package hedge

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// Fallback is the latency that is assumed until enough answers have been observed. It
// equals the default hedge delay of a lookup of some 50 keys.
const Fallback = 15 * time.Millisecond

// groupSizes are the upper bounds, in keys, of the size classes that are measured
// separately; a last class holds all larger groups. A group of 26 keys takes many times
// longer than a group of one, and a single percentile over both would hedge every large
// group and no small one.
var groupSizes = [...]int{1, 2, 4, 7, 11, 17, 26}

const (
	// window is how many answers of a size class are kept.
	window = 2048
	// minSamples is the least number of answers for a percentile; a high one needs more,
	// see enough.
	minSamples = 50
	// refresh is after how many answers a percentile is computed again.
	refresh = 32
)

// Latencies holds the latencies of recent first attempts and rereads on a table: the last
// 2048 of each size class, to a resolution of 3 %. An attempt that lost to its hedge must
// be observed as well, when its host answers: otherwise each hedge that wins would lower
// the percentiles. Latencies is safe for concurrent use; the zero value is empty and ready.
type Latencies struct {
	classes [len(groupSizes) + 1]class
}

// Observe records that an attempt for a group of size keys took d.
func (l *Latencies) Observe(size int, d time.Duration) {
	l.classes[classOf(size)].observe(d)
}

// Quantile returns the latency that a fraction p of the groups in the class of size did not
// exceed. A class needs 50 answers and 1/(1-p), but no more than the window. If it has
// fewer, the next larger class with enough is used, then the largest smaller one but at
// least Fallback, then Fallback alone.
func (l *Latencies) Quantile(p float64, size int) time.Duration {
	at := classOf(size)
	for i := at; i < len(l.classes); i++ {
		if d, ok := l.classes[i].quantile(p); ok {
			return d
		}
	}
	for i := at - 1; i >= 0; i-- {
		if d, ok := l.classes[i].quantile(p); ok {
			return max(d, Fallback)
		}
	}
	return Fallback
}

// Usual returns the latency that a fraction p of such groups does not exceed on healthy
// hosts, and whether their class has enough answers to tell. It is the least of this class
// and the larger ones, which take no less: a slow host is given small groups, until most
// answers of their class are its own.
func (l *Latencies) Usual(p float64, size int) (time.Duration, bool) {
	at := classOf(size)
	least, ok := l.classes[at].quantile(p)
	for i := at + 1; ok && i < len(l.classes); i++ {
		if d, enough := l.classes[i].quantile(p); enough {
			least = min(least, d)
		}
	}
	return least, ok
}

func classOf(size int) int {
	for i, most := range groupSizes {
		if size <= most {
			return i
		}
	}
	return len(groupSizes)
}

// class is a sliding histogram: the cell of each of the last answers, and how many answers
// are in each cell.
type class struct {
	mu     sync.Mutex
	seen   uint64
	recent [window]uint16
	counts [cells]uint16
	cached [3]cachedQuantile
}

type cachedQuantile struct {
	p     float64
	value time.Duration
	at    uint64
}

func (c *class) observe(d time.Duration) {
	cell := cellOf(d)
	c.mu.Lock()
	slot := &c.recent[c.seen%window]
	if c.seen >= window {
		c.counts[*slot]--
	}
	*slot = cell
	c.counts[cell]++
	c.seen++
	c.mu.Unlock()
}

func (c *class) quantile(p float64) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen < enough(p) {
		return 0, false
	}
	for i := range c.cached {
		q := &c.cached[i]
		if q.at == 0 || q.p == p {
			if q.at == 0 || c.seen-q.at >= refresh {
				*q = cachedQuantile{p: p, value: c.count(p), at: c.seen}
			}
			return q.value, true
		}
	}
	return c.count(p), true
}

// count computes the quantile from the top, where the percentiles of interest are.
func (c *class) count(p float64) time.Duration {
	n := min(c.seen, window)
	above := n - uint64(math.Ceil(p*float64(n)-1e-9))
	for cell := cells - 1; cell >= 0; cell-- {
		k := uint64(c.counts[cell])
		if k > above {
			return valueOf(cell)
		}
		above -= k
	}
	return 0
}

// enough returns how many answers the quantile p needs: at least one must lie beyond it.
func enough(p float64) uint64 {
	return uint64(min(max(minSamples, math.Ceil(1/(1-p)-1e-9)), window))
}

// The histogram has 32 cells for each power of two of microseconds, up to 2^27 µs (134 s).
// Longer latencies fall into the last cell.
const (
	cellBits = 5
	maxBits  = 27
	cells    = (maxBits - cellBits + 1) << cellBits
)

func cellOf(d time.Duration) uint16 {
	us := uint64(max(d, 0) / time.Microsecond)
	if us >= 1<<maxBits {
		return cells - 1
	}
	shift := max(bits.Len64(us)-cellBits-1, 0)
	return uint16(uint64(shift)<<cellBits + us>>shift)
}

// valueOf returns the largest latency of a cell, so that a quantile is never
// understated.
func valueOf(cell int) time.Duration {
	shift := max(cell>>cellBits-1, 0)
	us := uint64(cell-shift<<cellBits+1)<<shift - 1
	return time.Duration(us) * time.Microsecond
}
