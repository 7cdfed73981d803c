package qosproxy

import (
	"context"
	"iter"
)

// Pages makes a lookup page by page: it yields the first page of every key, then the next page
// of each key that has one, until none has. Each answer holds one page of each of its keys, and
// is dropped when the loop goes on, so that partitions of any size take the memory of one page.
// LimitPerKey is the size of a page. ctx bounds them all, and Timeout each.
//
// A key that is not answered has no further page: Answer.Err tells of it, and Pages with
// the tokens of the answer before goes on there. A page that fails as a whole is the last pair,
// a nil Answer with an *Error.
func (c *Client) Pages(ctx context.Context, l Lookup) iter.Seq2[*Answer, error] {
	return func(yield func(*Answer, error) bool) {
		for l.Paging = true; ; {
			answer, err := c.Get(ctx, l)
			if !yield(answer, err) || err != nil {
				return
			}
			if l = answer.nextPages(l); len(l.Keys) == 0 {
				return
			}
		}
	}
}

// nextPages returns the lookup of the pages behind those of an answer to l.
func (a *Answer) nextPages(l Lookup) Lookup {
	optional := make(map[int]bool, len(l.Optional))
	for _, i := range l.Optional {
		optional[i] = true
	}
	l.Keys, l.PageTokens, l.Optional, l.MinKeys = nil, nil, nil, min(l.MinKeys, 1)
	for i, r := range a.All() {
		token := r.NextPageToken()
		if token == "" {
			continue
		}
		if optional[i] {
			l.Optional = append(l.Optional, len(l.Keys))
		}
		l.Keys, l.PageTokens = append(l.Keys, r.Key), append(l.PageTokens, token)
	}
	return l
}
