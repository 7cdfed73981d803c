package ring

import "slices"

// walk lists the hosts in the order in which their tokens come up on the way
// round the ring, beginning at one range. It is a linked list that is updated
// from range to range.
//
// Stepping back by one range moves the owner of that range to the front and keeps
// the order of all others. So a step costs the same with 1 or 256 tokens per
// host, and a datacenter with few tokens is found without passing thousands.
type walk struct {
	// next and prev link the hosts by HostIndex. The last index is the end.
	next, prev []HostIndex
}

// newWalk returns a walk without hosts.
func newWalk(hosts int) *walk {
	w := &walk{next: make([]HostIndex, hosts+1), prev: make([]HostIndex, hosts+1)}
	for i := range w.next {
		w.next[i], w.prev[i] = HostIndex(i), HostIndex(i)
	}
	return w
}

// begin returns the first host, or end.
func (w *walk) begin() HostIndex { return w.next[w.end()] }

// end returns what follows the last host.
func (w *walk) end() HostIndex { return HostIndex(len(w.next) - 1) }

// back puts a host in front of all others.
func (w *walk) back(h HostIndex) {
	w.next[w.prev[h]], w.prev[w.next[h]] = w.next[h], w.prev[h]
	end, front := w.end(), w.begin()
	w.next[h], w.prev[h] = front, end
	w.next[end], w.prev[front] = h, h
}

// eachRange calls visit for every range, last to first, with the walk that begins
// there.
func (t *tokenTable) eachRange(hosts int, visit func(i int, w *walk)) {
	w := newWalk(hosts)
	// Once round without visits, to find the order after the last range.
	for _, v := range slices.Backward(t.owners) {
		w.back(v)
	}
	for i, v := range slices.Backward(t.owners) {
		w.back(v)
		visit(i, w)
	}
}
