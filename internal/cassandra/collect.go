package cassandra

import (
	"bytes"
	"errors"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// The results of keys that are given up because of their size.
var (
	tooManyRows  = tooLarge(reasons.TooManyRows, errors.New("the key has more rows than the limit; read them in pages, or set limit_per_key"))
	tooManyBytes = tooLarge(reasons.TooManyBytes, errors.New("the rows exceed the limit of bytes; read them in pages, or fewer columns"))
	crowded      = tooLarge(reasons.AnswerFull, executor.ErrCrowded)
)

func tooLarge(why reasons.Reason, err error) *partition.Result {
	res := partition.Unanswered(why, err)
	return &res
}

// collector sorts the rows of one statement by key. While rows arrive, cells point into the
// driver's frames; at the end all that is kept is copied at once.
type collector struct {
	r    *reading
	span span
	// columns are those that the statement selects. checked is the first column of the page whose
	// types were compared last.
	columns []schema.Column
	checked *gocql.ColumnInfo
	// limit is the LIMIT of the statement, 0 for none, and limited is whether a key may have
	// several rows.
	limit   int
	limited bool
	// cells are those of all kept rows, width for each row.
	cells [][]byte
	width int
	// owners is the key of each row of cells, counted from span.from; -1 for a row that was
	// dropped.
	owners []int
	keys   []tally
	last   int
	// rows and bytes count all that has come, kept or not; reached counts the keys with rows.
	// censored is set when some key may have more rows than came.
	rows, bytes, reached int
	censored             bool
	// byKey finds the key of a row when there are many keys.
	byKey map[string]int
}

// tally is what has come for one key.
type tally struct {
	rows, bytes int
	// came also counts rows that are not kept.
	came int
	// given is the result of a key that is given up; nil for others.
	given *partition.Result
	// more means that rows are left out, open that the LIMIT may have cut off rows.
	more, open bool
}

// linearKeys is up to how many keys a row is compared with one by one, rather than by hash.
const linearKeys = 64

func newCollector(r *reading, p span) *collector {
	c := &collector{r: r, span: p, columns: r.columns, width: len(r.asked), keys: make([]tally, p.len()), limited: r.limited(r.named(p))}
	if p.len() > 1 {
		c.columns = r.many
	}
	return c
}

// collect reads all rows and stores the results of the span's keys. After an error it stores
// nothing, and gives back the bytes of the rows.
func (c *collector) collect(rows rows) (err error) {
	defer func() {
		if err != nil {
			for _, t := range c.keys {
				c.r.left.Add(int64(t.bytes))
			}
		}
	}()
	if err := c.check(rows); err != nil {
		return errors.Join(err, rows.Close())
	}
	refs := make([]rawCell, len(c.columns))
	dest := make([]any, len(refs))
	for i := range refs {
		dest[i] = &refs[i]
	}
	c.owners = make([]int, 0, rows.NumRows())
	c.cells = make([][]byte, 0, rows.NumRows()*c.width)
	defer c.observe()
	for rows.Scan(dest...) {
		if err := c.check(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
		if err := c.add(refs); err != nil {
			return errors.Join(err, rows.Close())
		}
		if c.span.len() == 1 && (c.keys[0].given != nil || c.keys[0].more) {
			// The one key is too large or full already; its further pages are not read, and nothing is
			// known of the rows that they have.
			c.censored = true
			break
		}
	}
	if err := rows.Close(); err != nil {
		return err
	}
	c.cut()
	c.store()
	return nil
}

// check compares the types of the rows with those of the table, for each page that brings metadata:
// the table may be dropped and created anew between two pages.
func (c *collector) check(rows rows) error {
	columns := rows.Columns()
	if len(columns) == 0 || &columns[0] == c.checked {
		return nil
	}
	c.checked = &columns[0]
	return c.r.check(c.columns, columns)
}

// cut marks the keys that the LIMIT of the statement may have cut off, to be read again: the key of
// the last row, which may have more, and the keys without rows. The rows of the others are
// complete, since rows come partition by partition.
func (c *collector) cut() {
	if c.limit == 0 || c.rows < c.limit {
		return
	}
	for k := range c.keys {
		t := &c.keys[k]
		if t.given != nil || t.more || t.rows > 0 && k != c.last || t.rows == c.r.Limit && !c.r.Strict && !c.r.Paged {
			continue
		}
		if t.rows > 0 {
			c.drop(k, nil)
		}
		t.open = true
	}
}

// observe reports the size of what came. A key that was given up has more than that. When the LIMIT
// was reached, keys without rows do not count: nothing is known of them.
func (c *collector) observe() {
	keys := c.span.len()
	if c.limit > 0 && c.rows >= c.limit {
		keys = c.reached
	}
	c.r.volume.observe(keys, c.rows, c.bytes, c.censored)
}

// add counts one row, and keeps it unless its key is full or given up.
func (c *collector) add(refs []rawCell) error {
	k, err := c.find(refs)
	if err != nil {
		return err
	}
	t := &c.keys[k]
	c.rows++
	for _, cell := range refs {
		c.bytes += len(cell)
	}
	if t.came++; t.came == 1 {
		c.reached++
	}
	c.censored = c.censored || t.came == c.r.rowsPerKey()
	if t.given != nil || t.more { // given up or full already
		return nil
	}
	size := 0
	for _, i := range c.r.asked {
		size += len(refs[i])
	}
	switch {
	case t.rows == c.r.Limit && c.limited:
		if c.r.Strict {
			c.drop(k, tooManyRows)
		}
		t.more = c.r.Paged
		return nil
	case c.r.left.Add(int64(-size)) < 0:
		c.r.left.Add(int64(size))
		if c.r.Paged && t.rows > 0 {
			t.more, c.censored = true, true
			return nil
		}
		given := tooManyBytes
		if t.bytes+size <= c.r.MaxBytes {
			given = crowded
		}
		c.drop(k, given)
		return nil
	}
	t.rows++
	t.bytes += size
	c.owners = append(c.owners, k)
	var own []byte
	if c.r.whole {
		own = make([]byte, 0, size)
	}
	for _, i := range c.r.asked {
		cell := refs[i]
		if c.r.whole && cell != nil {
			// A copy frees the frame with its row: most of it may be columns that nobody asked for,
			// and it would otherwise be held until the last page.
			from := len(own)
			own = append(own, cell...)
			cell = own[from:len(own):len(own)]
		}
		c.cells = append(c.cells, cell)
	}
	return nil
}

// find returns the key of a row, counted from span.from. Rows come partition by partition, so it
// tries the last key first.
func (c *collector) find(refs []rawCell) (int, error) {
	if c.span.len() == 1 {
		return 0, nil
	}
	value, v := refs[c.r.key], c.r.varying
	keys := c.r.Keys[c.span.from:c.span.to]
	if bytes.Equal(keys[c.last].Components()[v], value) {
		return c.last, nil
	}
	if len(keys) > linearKeys {
		if c.byKey == nil {
			c.byKey = make(map[string]int, len(keys))
			for i, k := range keys {
				c.byKey[string(k.Components()[v])] = i
			}
		}
		k, ok := c.byKey[string(value)]
		if !ok {
			return 0, errForeignRow
		}
		c.last = k
		return k, nil
	}
	for i, k := range keys {
		if bytes.Equal(k.Components()[v], value) {
			c.last = i
			return i, nil
		}
	}
	return 0, errForeignRow
}

// drop gives up a key with the given result, and gives back the bytes of its rows.
func (c *collector) drop(k int, given *partition.Result) {
	t := &c.keys[k]
	c.r.left.Add(int64(t.bytes))
	*t = tally{came: t.came, given: given}
	for i, o := range c.owners {
		if o == k {
			c.owners[i] = -1
		}
	}
}

// store copies what is kept out of the frames and stores the results, with one allocation for all
// bytes and one for all rows of the statement.
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
		case t.open:
			*res = partition.Result{}
		case t.given != nil:
			*res = *t.given
		case t.rows == 0:
			*res = partition.Result{Status: partition.NotFound}
		default:
			*res = partition.Result{Status: partition.Found, Rows: rows[starts[k]:at:at], Bytes: t.bytes, More: t.more}
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
