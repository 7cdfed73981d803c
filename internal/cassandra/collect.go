package cassandra

import (
	"bytes"
	"errors"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// Failures of a key by its size.
var (
	errTooManyRows  = errors.New("the partition has more rows than the limit")
	errTooManyBytes = errors.New("the rows exceed the limit of bytes")
)

// collector sorts the rows of one statement by key. While rows come in, cells
// point into the driver's frames; at the end all that is kept is copied at once.
type collector struct {
	r    *reading
	span span
	// cells are those of all rows, width of them for each.
	cells [][]byte
	width int
	// owners is the key of each row, counted from span.from; -1 for a row that
	// is not kept.
	owners []int
	keys   []tally
	last   int
	// rows and bytes are what has come, kept or not.
	rows, bytes int
	// byKey finds the key of a row where there are many.
	byKey map[string]int
}

// tally is what has come for one key.
type tally struct {
	rows, bytes int
	err         error
}

// linearKeys is how many keys are compared one by one rather than hashed.
const linearKeys = 64

func newCollector(r *reading, p span) *collector {
	return &collector{r: r, span: p, width: len(r.asked), keys: make([]tally, p.len())}
}

// collect reads all rows and stores the results of the span's keys. After an
// error nothing is stored.
func (c *collector) collect(rows *gocql.Iter) error {
	if columns := rows.Columns(); len(columns) > 0 {
		if err := c.r.check(columns); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	refs := make([]rawCell, len(c.r.columns))
	dest := make([]any, len(refs))
	for i := range refs {
		dest[i] = &refs[i]
	}
	c.owners = make([]int, 0, rows.NumRows())
	c.cells = make([][]byte, 0, rows.NumRows()*c.width)
	defer c.observe()
	for rows.Scan(dest...) {
		if err := c.add(refs); err != nil {
			return errors.Join(err, rows.Close())
		}
		if c.span.len() == 1 && c.keys[0].err != nil {
			// The one key is too large already; its further pages are not read.
			break
		}
	}
	if err := rows.Close(); err != nil {
		return err
	}
	c.store()
	return nil
}

// observe tells how large the rows were. What is known of a key that was given up is
// less than it has.
func (c *collector) observe() { c.r.volume.observe(c.span.len(), c.rows, c.bytes) }

// add takes one row.
func (c *collector) add(refs []rawCell) error {
	k, err := c.find(refs)
	if err != nil {
		return err
	}
	t := &c.keys[k]
	if t.err != nil { // given up already
		return nil //nolint:nilerr // an error of the key, not of the read
	}
	size := 0
	for _, i := range c.r.asked {
		size += len(refs[i])
	}
	c.rows++
	c.bytes += size
	switch {
	case t.rows == c.r.Limit && c.r.limited():
		if c.r.Strict {
			c.drop(k, errTooManyRows)
		}
		return nil
	case c.r.left.Add(int64(-size)) < 0:
		c.r.left.Add(int64(size))
		cause := errTooManyBytes
		if t.bytes+size <= c.r.MaxBytes {
			cause = executor.ErrCrowded
		}
		c.drop(k, cause)
		return nil
	}
	t.rows++
	t.bytes += size
	c.owners = append(c.owners, k)
	for _, i := range c.r.asked {
		c.cells = append(c.cells, refs[i])
	}
	return nil
}

// find returns whose row it is. Rows come partition by partition.
func (c *collector) find(refs []rawCell) (int, error) {
	if c.span.len() == 1 {
		return 0, nil
	}
	pk := refs[c.r.key]
	keys := c.r.Keys[c.span.from:c.span.to]
	if bytes.Equal(keys[c.last].Routing(), pk) {
		return c.last, nil
	}
	if len(keys) > linearKeys {
		if c.byKey == nil {
			c.byKey = make(map[string]int, len(keys))
			for i, k := range keys {
				c.byKey[string(k.Routing())] = i
			}
		}
		k, ok := c.byKey[string(pk)]
		if !ok {
			return 0, errForeignRow
		}
		c.last = k
		return k, nil
	}
	for i, k := range keys {
		if bytes.Equal(k.Routing(), pk) {
			c.last = i
			return i, nil
		}
	}
	return 0, errForeignRow
}

// drop gives up a key and the room that its rows took.
func (c *collector) drop(k int, err error) {
	t := &c.keys[k]
	c.r.left.Add(int64(t.bytes))
	*t = tally{err: err}
	for i, o := range c.owners {
		if o == k {
			c.owners[i] = -1
		}
	}
}

// store copies what is kept out of the frames and writes the results: one
// allocation for all bytes and one for all rows of the statement.
func (c *collector) store() {
	total, count := 0, 0
	for _, t := range c.keys {
		total += t.bytes
		count += t.rows
	}
	// Rows of one key are next to each other in rows, from starts[key] on.
	rows := make([]partition.Row, count)
	starts := make([]int, len(c.keys))
	at := 0
	for k, t := range c.keys {
		starts[k] = at
		at += t.rows
		res := &c.r.results[c.span.from+k]
		switch {
		case t.err != nil:
			*res = partition.Result{Status: partition.TooLarge, Err: t.err}
		case t.rows == 0:
			*res = partition.Result{Status: partition.NotFound}
		default:
			*res = partition.Result{Status: partition.Found, Rows: rows[starts[k]:at:at], Bytes: t.bytes}
		}
	}
	buf := make([]byte, 0, total)
	for i, k := range c.owners {
		row := c.cells[i*c.width : (i+1)*c.width : (i+1)*c.width]
		if k < 0 {
			clear(row)
			continue
		}
		for j, cell := range row {
			if cell == nil {
				continue
			}
			from := len(buf)
			buf = append(buf, cell...)
			row[j] = buf[from:len(buf):len(buf)]
		}
		rows[starts[k]] = row
		starts[k]++
	}
}
