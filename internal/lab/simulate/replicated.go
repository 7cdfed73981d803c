package simulate

import "container/heap"

// link is a vnode of a ring in the form of a linked list, in which a token can be tried out and
// removed again.
type link struct {
	token      int64
	node       int
	prev, next *link
	// span is the share of the ring that the vnode holds as a replica.
	span float64
}

// member is the share of the ring that a node of the list holds, and its number of vnodes.
type member struct {
	held   float64
	tokens float64
}

// joining is a node that joins a ring in which each key has several replicas.
type joining struct {
	members []member
	node    int
	// even is the share that each vnode would hold if all held the same.
	even float64
}

// candidate is a token that the joining node may choose, with its gain when that was last computed.
type candidate struct {
	link *link
	// gain is by how much the token lowers the variance over vnodes and over nodes.
	gain float64
}

// candidates is a heap whose first is the one with the largest gain.
type candidates []candidate

// Len returns the number of candidates.
func (c candidates) Len() int { return len(c) }

// Less puts the largest gain first.
func (c candidates) Less(i, j int) bool { return c[i].gain > c[j].gain }

// Swap exchanges two candidates.
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push adds a candidate at the end.
func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) }

// Pop removes the last candidate and returns it.
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// join gives a node the tokens that make the shares which nodes hold as replicas most even. The
// candidates are the middles of all ranges. The one that lowers the variance over vnodes and nodes
// most is chosen, again and again. A gain that is out of date, because another token was chosen
// since, is computed again only when its candidate is the first of the heap.
func (c *circle) join(node, count int) {
	first := c.list()
	j := &joining{members: make([]member, node+1), node: node, even: replicas / float64(len(c.tokens)+count)}
	var queue candidates
	for v := first; ; v = v.next {
		v.span = v.held()
		j.members[v.node].held += v.span
		j.members[v.node].tokens++
		queue = append(queue, candidate{link: &link{
			token: at(v.prev.token, v.token, 0.5), node: node, prev: v.prev, next: v, span: j.even,
		}})
		if v.next == first {
			break
		}
	}
	// The node counts as holding its even share already, or the first tokens would take the widest
	// ranges of all.
	j.members[node] = member{held: float64(count) * j.even, tokens: float64(count)}
	for i := range queue {
		queue[i].gain = j.gain(queue[i].link, 1/float64(count))
	}
	heap.Init(&queue)
	for n := range count {
		best := heap.Pop(&queue).(candidate)
		for len(queue) > 0 {
			if best.gain = j.gain(best.link, float64(n+1)/float64(count)); best.gain >= queue[0].gain {
				break
			}
			heap.Push(&queue, best)
			best = heap.Pop(&queue).(candidate)
		}
		j.take(best.link)
		c.insert(best.link.token, node)
	}
}

// list returns the first vnode of the ring as a linked list.
func (c *circle) list() *link {
	links := make([]link, len(c.tokens))
	for i, v := range c.tokens {
		links[i] = link{token: v.token, node: v.node}
		links[i].prev = &links[(i+len(links)-1)%len(links)]
		links[i].next = &links[(i+1)%len(links)]
	}
	return &links[0]
}

// held returns the share of the ring that a vnode holds: back to the first token of the node that
// is as many nodes away as there are replicas, or to the last token of its own node.
func (v *link) held() float64 {
	var seen [replicas]int
	n := 0
	for p := v.prev; ; p = p.prev {
		known := false
		for _, s := range seen[:n] {
			known = known || s == p.node
		}
		if known {
			continue
		}
		seen[n] = p.node
		n++
		if n == replicas || p.node == v.node || p == v {
			return between(p.token, v.token)
		}
	}
}

// enter inserts a vnode into the list before its next one.
func (v *link) enter() {
	v.prev = v.next.prev
	v.prev.next, v.next.prev = v, v
}

func (v *link) leave() { v.prev.next, v.next.prev = v.next, v.prev }

// touched calls f for a vnode that has entered the list and for those after it whose span it may
// have changed: the first vnode of each of the next nodes, as many as there are replicas.
func (v *link) touched(f func(*link)) {
	f(v)
	var seen [replicas]int
	n := 0
	for p := v.next; n < replicas && p != v; p = p.next {
		known := false
		for _, s := range seen[:n] {
			known = known || s == p.node
		}
		if !known {
			seen[n] = p.node
			n++
			f(p)
		}
	}
}

// gain returns by how much a candidate lowers the variances: that over vnodes and that over nodes,
// in which the joining node counts with a weight.
func (j *joining) gain(v *link, weight float64) float64 {
	v.enter()
	change := 0.0
	var nodes [replicas + 1]int
	var more [replicas + 1]float64
	n := 0
	v.touched(func(t *link) {
		held := t.held()
		m := j.members[t.node]
		change += (square(held-j.even) - square(t.span-j.even)) / square(m.tokens)
		at := 0
		for at < n && nodes[at] != t.node {
			at++
		}
		if at == n {
			nodes[n] = t.node
			n++
		}
		more[at] += held - t.span
	})
	v.leave()
	for i := range n {
		m := j.members[nodes[i]]
		d := square((m.held+more[i])/m.tokens-j.even) - square(m.held/m.tokens-j.even)
		if nodes[i] == j.node {
			d *= weight
		}
		change += d
	}
	return -change
}

// take inserts a candidate into the ring for good.
func (j *joining) take(v *link) {
	v.enter()
	v.touched(func(t *link) {
		held := t.held()
		j.members[t.node].held += held - t.span
		t.span = held
	})
}

func square(x float64) float64 { return x * x }
