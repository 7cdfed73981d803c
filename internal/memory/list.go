package memory

// links are the neighbours of an element in a list.
type links[T any] struct{ older, newer *T }

// linked is an element of a list.
type linked[T any] interface {
	*T
	node() *links[T]
}

// list is a doubly linked list whose elements bring their own links, so that adding
// one allocates nothing. The zero list is empty.
type list[T any] struct{ oldest, newest *T }

// push adds an element as the newest.
func push[T any, P linked[T]](l *list[T], e P) {
	n := e.node()
	n.older = l.newest
	if l.newest == nil {
		l.oldest = e
	} else {
		P(l.newest).node().newer = e
	}
	l.newest = e
}

// remove removes an element that is in the list.
func remove[T any, P linked[T]](l *list[T], e P) {
	n := e.node()
	if n.older == nil {
		l.oldest = n.newer
	} else {
		P(n.older).node().newer = n.newer
	}
	if n.newer == nil {
		l.newest = n.older
	} else {
		P(n.newer).node().older = n.older
	}
	n.older, n.newer = nil, nil
}
