package cassandra

import "github.com/qosproxy/qosproxy/internal/partition"

// arrange finds which keys can share a statement, orders the keys so that those of a
// statement are a span, and returns these spans.
func (r *reading) arrange() []span {
	size := r.perStatement()
	column, classes := partition.Share(r.table, r.Keys, size)
	r.vary(column)
	if classes.Of != nil {
		r.order(classes)
	}
	parts := make([]span, 0, classes.Statements(size))
	from := 0
	for _, n := range classes.Sizes {
		parts = span{from, from + int(n)}.split(size, parts)
		from += int(n)
	}
	return parts
}

// order moves the keys of a class next to each other, in a copy of the sub-query,
// and records their original positions.
func (r *reading) order(c partition.Classes) {
	ends := make([]int, len(c.Sizes))
	for i := 1; i < len(ends); i++ {
		ends[i] = ends[i-1] + int(c.Sizes[i-1])
	}
	q := *r.SubQuery
	q.Keys, r.at = make([]partition.Key, len(r.Keys)), make([]int, len(r.Keys))
	for k, class := range c.Of {
		q.Keys[ends[class]], r.at[ends[class]] = r.Keys[k], k
		ends[class]++
	}
	r.SubQuery = &q
}

// inOrder returns the results in the original order of the keys.
func (r *reading) inOrder() []partition.Result {
	if r.at == nil {
		return r.results
	}
	out := make([]partition.Result, len(r.results))
	for i, k := range r.at {
		out[k] = r.results[i]
	}
	return out
}

// handOn passes the results of a part to r.Early, before other parts have ended.
func (r *reading) handOn(p span) {
	if r.Early == nil {
		return
	}
	if r.at == nil {
		r.Early.Receive(p.from, r.results[p.from:p.to:p.to])
		return
	}
	for from := p.from; from < p.to; {
		to := from + 1
		for to < p.to && r.at[to] == r.at[to-1]+1 {
			to++
		}
		r.Early.Receive(r.at[from], r.results[from:to:to])
		from = to
	}
}
