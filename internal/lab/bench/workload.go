package bench

import (
	"math/rand/v2"
	"slices"
)

// Lookup is one lookup to be made.
type Lookup struct {
	// Keys are the numbers of the partitions asked for, without duplicates. Numbers from
	// Profile.Partitions on were never written.
	Keys []int

	// row is the row asked for in each partition; noRow for all rows.
	row  int
	kind *kind
}

// noRow asks for all rows of a partition.
const noRow = -1

// kind is a kind of lookup with its columns resolved.
type kind struct {
	Kind
	columns []int    // indices into Dataset.columns
	names   []string // the names of these columns
}

// workload draws lookups at random. It is not safe for concurrent use.
type workload struct {
	data   *Dataset
	kinds  []*kind // each repeated by its weight
	random *rand.Rand
	hot    *rand.Zipf // nil for uniform
	seen   map[int]bool
}

// newWorkload returns a workload of a dataset's profile. Equal seeds draw equal lookups, so that
// targets measured in turns get the same lookups.
func newWorkload(d *Dataset, kinds []*kind, seed uint64) *workload {
	w := &workload{data: d, random: rand.New(rand.NewPCG(seed, d.Seed)), seen: map[int]bool{}}
	for _, k := range kinds {
		for range k.Weight {
			w.kinds = append(w.kinds, k)
		}
	}
	if d.Profile.Keys.Distribution == zipf {
		w.hot = rand.NewZipf(w.random, d.Profile.Keys.Exponent, 1, uint64(d.Profile.Partitions-1))
	}
	return w
}

// resolve resolves the columns of each kind of lookup in a mix.
func (d *Dataset) resolve(mix []Kind) []*kind {
	out := make([]*kind, len(mix))
	for i, m := range mix {
		k := &kind{Kind: m}
		for c, column := range d.columns {
			if len(m.Columns) == 0 || slices.Contains(m.Columns, column.Name) {
				k.columns, k.names = append(k.columns, c), append(k.names, column.Name)
			}
		}
		out[i] = k
	}
	return out
}

// next draws a lookup.
func (w *workload) next() *Lookup {
	k := w.kinds[w.random.IntN(len(w.kinds))]
	clear(w.seen)
	keys := make([]int, 0, k.Keys)
	same := func(i int) int { return i }
	if w.data.Profile.Keys.SharePrefix {
		prefix := w.random.IntN(prefixes)
		same = func(i int) int {
			// The last incomplete run of partitions does not have every prefix; use the run before it.
			return min(i, w.data.Profile.Partitions-prefixes)/prefixes*prefixes + prefix
		}
	}
	for len(keys) < k.Keys {
		i := same(w.draw())
		if w.seen[i] {
			// Replace a hot key that is drawn again by any other, or a skewed draw of many distinct keys
			// would never end.
			i = same(w.random.IntN(w.data.Profile.Partitions))
		}
		if !w.seen[i] {
			w.seen[i] = true
			keys = append(keys, i)
		}
	}
	row := noRow
	if k.Rows {
		row = w.random.IntN(w.data.Profile.RowsPerPartition)
	}
	return &Lookup{Keys: keys, row: row, kind: k}
}

// draw draws one key.
func (w *workload) draw() int {
	all := w.data.Profile.Partitions
	switch {
	case w.data.Profile.Keys.Unknown > 0 && w.random.Float64() < w.data.Profile.Keys.Unknown:
		return all + w.random.IntN(len(w.data.keys)-all)
	case w.hot != nil:
		// Spread hot keys over the partitions; otherwise they would have neighbouring numbers.
		return int(mix(w.hot.Uint64()) % uint64(all))
	default:
		return w.random.IntN(all)
	}
}
