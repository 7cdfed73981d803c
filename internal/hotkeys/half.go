package hotkeys

import (
	"container/heap"
	"time"
)

// half counts the keys of half a window by Space-Saving (Metwally, Agrawal and El
// Abbadi, 2005): when all counters are in use, a new key takes over the lowest one
// with its count.
type half struct {
	begin time.Time
	total uint64
	at    map[string]*counter
	heap  lowest
}

// counter is the count of one key. Up to over of it may stem from earlier keys.
type counter struct {
	key         string
	count, over uint64
	place       int
}

func newHalf(begin time.Time) *half { return &half{begin: begin, at: map[string]*counter{}} }

// add counts a key n times.
func (h *half) add(key []byte, n uint64) {
	h.total += n
	if len(key) > maxKeyBytes {
		return
	}
	c, ok := h.at[string(key)]
	switch {
	case ok:
		c.count += n
		heap.Fix(&h.heap, c.place)
	case len(h.heap) < capacity:
		c = &counter{key: string(key), count: n}
		h.at[c.key] = c
		heap.Push(&h.heap, c)
	default:
		c = h.heap[0]
		delete(h.at, c.key)
		c.key, c.over = string(key), c.count
		c.count += n
		h.at[c.key] = c
		heap.Fix(&h.heap, 0)
	}
}

// lowest is a heap of counters with the lowest count first.
type lowest []*counter

func (l lowest) Len() int           { return len(l) }
func (l lowest) Less(i, j int) bool { return l[i].count < l[j].count }
func (l lowest) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push implements heap.Interface.
func (l *lowest) Push(x any) {
	c := x.(*counter)
	c.place = len(*l)
	*l = append(*l, c)
}

// Pop implements heap.Interface.
func (l *lowest) Pop() any {
	last := len(*l) - 1
	c := (*l)[last]
	*l = (*l)[:last]
	return c
}
