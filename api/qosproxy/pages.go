package qosproxy

import (
	"context"
	"iter"
)

// Pages makes a lookup page by page: it yields the first page of every key, then the next page
// of each key that has one, until no key has. Each answer holds one page of each of its keys.
// The loop keeps only the latest answer, so partitions of any size need the memory of one page.
// LimitPerKey is the size of a page. ctx bounds all pages together, Lookup.Timeout each of
// them. Where fewer than MinKeys keys that count have a next page, all of them are MinKeys.
//
// A key that is not answered gets no further page: Answer.Err reports it, and a new call of
// Pages with the tokens of the previous answer continues there. If a request for pages fails as a
// whole, the last pair is a nil Answer with an *Error.
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

// nextPages returns the lookup of the pages that follow those of an answer to l.
func (a *Answer) nextPages(l Lookup) Lookup {
	optional := make(map[int]bool, len(l.Optional))
	for _, i := range l.Optional {
		optional[i] = true
	}
	l.Keys, l.PageTokens, l.Optional = nil, nil, nil
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
	countable := len(l.Keys) - len(l.Optional)
	if countable == 0 {
		countable = len(l.Keys)
	}
	l.MinKeys = min(l.MinKeys, countable)
	return l
}
