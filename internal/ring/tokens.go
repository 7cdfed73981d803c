package ring

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// tokenTable is every token of the ring in ascending order, with its owner.
// Token i ends range i, which starts after token i-1; range 0 starts after the
// last token and wraps around.
type tokenTable struct {
	tokens []int64
	owners []HostIndex
	// first cuts the token space into equal buckets, about one per token:
	// first[b] is the index of the first token in bucket b or after it. Tokens
	// are spread evenly enough that a bucket holds one or two, and a search
	// touches two cache lines where a binary search over 25,600 tokens touches
	// ten.
	first []int32
	// shift turns the offset of a token from the minimum into its bucket.
	shift uint
}

// newTokenTable sorts the tokens of the hosts. It returns ErrNoTokens,
// ErrTooManyTokens or ErrDuplicateToken.
func newTokenTable(hosts []Host) (*tokenTable, error) {
	type owned struct {
		token int64
		owner HostIndex
	}
	var all []owned
	for i, h := range hosts {
		for _, token := range h.Tokens {
			all = append(all, owned{token, HostIndex(i)})
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%w: none of %d hosts does", ErrNoTokens, len(hosts))
	case len(all) > math.MaxInt32/2:
		return nil, fmt.Errorf("%w: %d", ErrTooManyTokens, len(all))
	}
	slices.SortFunc(all, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.owner, b.owner))
	})
	t := &tokenTable{tokens: make([]int64, len(all)), owners: make([]HostIndex, len(all))}
	for i, o := range all {
		if i > 0 && o.token == t.tokens[i-1] {
			return nil, fmt.Errorf("%w: %d by %s and by %s", ErrDuplicateToken,
				o.token, hosts[t.owners[i-1]].Addr, hosts[o.owner].Addr)
		}
		t.tokens[i], t.owners[i] = o.token, o.owner
	}
	t.index()
	return t, nil
}

// index fills the buckets.
func (t *tokenTable) index() {
	width := bits.Len(uint(len(t.tokens) - 1))
	t.shift = uint(64 - width)
	t.first = make([]int32, 1<<width+1)
	i := int32(0)
	for b := range t.first {
		for int(i) < len(t.tokens) && t.bucket(t.tokens[i]) < uint64(b) {
			i++
		}
		t.first[b] = i
	}
}

// bucket returns the bucket of a token.
func (t *tokenTable) bucket(token int64) uint64 {
	return (uint64(token) ^ 1<<63) >> t.shift
}

// search returns the index of the range that contains a token: that of the first
// token not below it, or 0 when all are below.
func (t *tokenTable) search(token int64) int32 {
	b := t.bucket(token)
	lo, hi := t.first[b], t.first[b+1]
	for lo < hi {
		if mid := (lo + hi) / 2; t.tokens[mid] < token {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if int(lo) == len(t.tokens) {
		return 0
	}
	return lo
}

// start returns the token after which range i starts.
func (t *tokenTable) start(i int) int64 {
	if i == 0 {
		i = len(t.tokens)
	}
	return t.tokens[i-1]
}

// share returns the part of the token space in range i, above 0 and up to 1.
func (t *tokenTable) share(i int) float64 {
	if len(t.tokens) == 1 {
		return 1
	}
	// The subtraction wraps, as the range does.
	return math.Ldexp(float64(uint64(t.tokens[i]-t.start(i))), -64)
}
