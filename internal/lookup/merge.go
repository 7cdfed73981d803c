package lookup

import (
	"errors"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// ErrResponseTooLarge is the error of a key whose rows would make the answer
// exceed max_response_bytes.
var ErrResponseTooLarge = errors.New("the rows of this key would make the answer exceed max_response_bytes; ask for fewer keys or columns")

// merge hands the result of each distinct key to every position that asked for it, and
// limits the size of the answer. Its methods must not be called concurrently.
type merge struct {
	keys *keySet
	// left is how many bytes of cells the answer may still hold.
	left int
	// soft counts the results; nil without a soft deadline.
	soft *softDeadline
	// pages turn the results into pages; nil without paging.
	pages *pages
	// shared is set when the lookup itself reads all its keys, and others may wait for
	// them.
	shared *sharing
	emit   func(int, partition.Result)
}

// newMerge returns a merge that has already answered the positions that are not read.
func newMerge(r *resolved, soft *softDeadline, emit func(int, partition.Result)) *merge {
	m := &merge{keys: r.keys, left: r.query.MaxBytes, soft: soft, pages: r.pages, emit: emit}
	for _, i := range m.keys.shed {
		m.put(i, partition.Unanswered(reasons.Optional, ErrOptionalShed))
	}
	return m
}

// add merges the result of the distinct key u.
func (m *merge) add(u int, r partition.Result) {
	if m.shared != nil {
		m.shared.share(u, r)
	}
	if m.pages != nil {
		r = m.pages.page(m.keys.first[u], r)
	}
	m.put(m.keys.first[u], r)
	for _, i := range m.keys.repeats[int32(u)] {
		m.put(i, r)
	}
}

func (m *merge) put(i int, r partition.Result) {
	if r.Bytes > m.left {
		r = partition.Unanswered(reasons.AnswerFull, ErrResponseTooLarge)
	}
	m.left -= r.Bytes
	if m.soft != nil {
		r = m.soft.count(i, r)
	}
	m.emit(i, r)
}
