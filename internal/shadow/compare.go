package shadow

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Kind is the way in which the proxy's answer to a key differs from the driver's.
type Kind string

// The kinds of differences.
const (
	// MissingRow is a row that only the driver returned, ExtraRow a row that only the proxy
	// returned.
	MissingRow Kind = "missing_row"
	ExtraRow   Kind = "extra_row"
	// Cell is a cell whose value differs, null from empty too. Bytes is a cell with the same
	// value in other bytes, or with bytes that are not valid for its type.
	Cell  Kind = "cell"
	Bytes Kind = "bytes"
	// RowOrder is the same rows in another order.
	RowOrder Kind = "row_order"
	// Columns means that the columns or their types differ; the rows are then not compared.
	Columns Kind = "columns"
)

// Kinds lists all kinds, in the order of reports.
var Kinds = []Kind{MissingRow, ExtraRow, Cell, Bytes, RowOrder, Columns}

// Difference is one way in which the answers to one key differ.
type Difference struct {
	Table string `json:"table"`
	// Lookup is the number of the lookup: its line in the input, from 1.
	Lookup int64 `json:"lookup"`
	// Key is the key as JSON. Row is the clustering values of the row as a JSON array; it is
	// empty if they do not identify a row.
	Key string `json:"key"`
	Row string `json:"row,omitempty"`
	// Column is empty unless Kind is Cell or Bytes.
	Column string `json:"column,omitempty"`
	Kind   Kind   `json:"kind"`
	// Driver and Proxy are the two values: the JSON of a cell or of a row, followed by the
	// bytes in hex if the JSON is the same. A value is empty if that side has none.
	Driver string `json:"driver"`
	Proxy  string `json:"proxy"`

	// token is the token of the partition.
	token int64
}

// finding is a difference by position, before it is written as text. Rows are positions
// within the results of the key; -1 means none.
type finding struct {
	kind                Kind
	driver, proxy, cell int
}

// comparison compares the results of one key.
type comparison struct {
	columns []schema.Column
	// clustering are the positions of all clustering columns among columns. It is nil unless
	// all of them were read, because only all of them identify a row.
	clustering []int
}

func newComparison(t *schema.Table, columns []schema.Column) *comparison {
	c := &comparison{columns: columns}
	for _, k := range t.Clustering {
		at := slices.IndexFunc(columns, func(o schema.Column) bool { return o.Name == k.Name })
		if at < 0 {
			return &comparison{columns: columns}
		}
		c.clustering = append(c.clustering, at)
	}
	return c
}

// rows compares the rows of one key. It pairs equal rows first, then those with the same
// clustering values, or, if these were not read, in their order. Rows left over are missing
// or extra.
func (c *comparison) rows(driver, proxy []partition.Row) []finding {
	if slices.EqualFunc(driver, proxy, equalRows) {
		return nil
	}
	partner := make([]int, len(driver)) // the proxy's row for each row of the driver
	taken := make([]bool, len(proxy))
	pair := func(same func(d, p partition.Row) bool) {
		for d := range driver {
			if partner[d] >= 0 {
				continue
			}
			for p := range proxy {
				if !taken[p] && same(driver[d], proxy[p]) {
					partner[d], taken[p] = p, true
					break
				}
			}
		}
	}
	for d := range partner {
		partner[d] = -1
	}
	pair(equalRows)
	pair(c.sameRow)
	var found []finding
	last, ordered := -1, true
	for d, p := range partner {
		if p < 0 {
			found = append(found, finding{MissingRow, d, -1, -1})
			continue
		}
		ordered, last = ordered && p > last, p
		found = c.cells(found, d, p, driver[d], proxy[p])
	}
	for p := range proxy {
		if !taken[p] {
			found = append(found, finding{ExtraRow, -1, p, -1})
		}
	}
	if !ordered {
		found = append(found, finding{RowOrder, -1, -1, -1})
	}
	return found
}

// cells appends the cells in which two rows differ.
func (c *comparison) cells(found []finding, d, p int, driver, proxy partition.Row) []finding {
	if len(driver) != len(c.columns) || len(proxy) != len(c.columns) {
		if len(driver) != len(proxy) {
			found = append(found, finding{Columns, d, p, -1})
		}
		return found
	}
	for i := range c.columns {
		if equalCells(driver[i], proxy[i]) {
			continue
		}
		kind := Cell
		a, errA := c.columns[i].Type.AppendJSON(nil, driver[i])
		b, errB := c.columns[i].Type.AppendJSON(nil, proxy[i])
		// Null is checked first, because the JSON of NaN is null, too.
		null := driver[i] == nil || proxy[i] == nil
		if !null && (errA != nil || errB != nil || bytes.Equal(a, b)) {
			kind = Bytes
		}
		found = append(found, finding{kind, d, p, i})
	}
	return found
}

// sameRow reports whether two rows have the same clustering values. If these were not read,
// it returns true for any two rows.
func (c *comparison) sameRow(a, b partition.Row) bool {
	for _, i := range c.clustering {
		if i >= len(a) || i >= len(b) || !equalCells(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalCells reports whether two cells are equal. Null and empty are different.
func equalCells(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func equalRows(a, b partition.Row) bool { return slices.EqualFunc(a, b, equalCells) }

// describe writes a finding as text.
func (c *comparison) describe(f finding, driver, proxy []partition.Row) Difference {
	out := Difference{Kind: f.kind}
	row := partition.Row(nil)
	if f.driver >= 0 {
		row = driver[f.driver]
	} else if f.proxy >= 0 {
		row = proxy[f.proxy]
	}
	out.Row = c.rowName(row)
	switch {
	case f.cell >= 0:
		column := c.columns[f.cell]
		out.Column = column.Name
		out.Driver, out.Proxy = cellText(column, driver[f.driver][f.cell]), cellText(column, proxy[f.proxy][f.cell])
		if out.Driver == out.Proxy {
			out.Driver += " = " + hexText(driver[f.driver][f.cell])
			out.Proxy += " = " + hexText(proxy[f.proxy][f.cell])
		}
	case f.kind == RowOrder:
		out.Driver, out.Proxy = c.orderText(driver), c.orderText(proxy)
	default:
		if f.driver >= 0 {
			out.Driver = c.rowText(driver[f.driver])
		}
		if f.proxy >= 0 {
			out.Proxy = c.rowText(proxy[f.proxy])
		}
	}
	out.Driver, out.Proxy = clip(out.Driver), clip(out.Proxy)
	return out
}

// rowName returns the clustering values of a row as a JSON array; empty if there are none.
func (c *comparison) rowName(row partition.Row) string {
	if len(c.clustering) == 0 || len(row) != len(c.columns) {
		return ""
	}
	values := make([]string, len(c.clustering))
	for i, at := range c.clustering {
		values[i] = cellText(c.columns[at], row[at])
	}
	return clip("[" + strings.Join(values, ",") + "]")
}

// rowText returns a row as a JSON object.
func (c *comparison) rowText(row partition.Row) string {
	if len(row) != len(c.columns) {
		return fmt.Sprintf("%d cells", len(row))
	}
	members := make([]string, len(row))
	for i, cell := range row {
		members[i] = fmt.Sprintf("%q:%s", c.columns[i].Name, cellText(c.columns[i], cell))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// orderText returns the names of rows in their order.
func (c *comparison) orderText(rows []partition.Row) string {
	names := make([]string, len(rows))
	for i, row := range rows {
		if names[i] = c.rowName(row); names[i] == "" {
			names[i] = c.rowText(row)
		}
	}
	return strings.Join(names, " ")
}

// cellText returns a cell as JSON, or as hex if its bytes are not valid for the type.
func cellText(c schema.Column, cell []byte) string {
	if cell == nil {
		return "null"
	}
	text, err := c.Type.AppendJSON(nil, cell)
	if err != nil {
		return hexText(cell) + ", no " + c.Type.String()
	}
	return string(text)
}

// hexText returns bytes as CQL writes a blob, and nil as null.
func hexText(cell []byte) string {
	if cell == nil {
		return "null"
	}
	return "0x" + hex.EncodeToString(cell)
}

// clip shortens a text for a report.
func clip(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + fmt.Sprintf("… (%d bytes)", len(text))
}

// keyText returns a key as JSON: its single value, or the array of its values.
func keyText(t *schema.Table, k partition.Key) string {
	components := k.Components()
	values := make([]string, len(components))
	for i, c := range components {
		values[i] = cellText(t.KeyColumn(i), c)
	}
	if len(values) == 1 {
		return clip(values[0])
	}
	return clip("[" + strings.Join(values, ",") + "]")
}

// columnsText lists columns with their types.
func columnsText(columns []schema.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name + " " + c.Type.String()
	}
	return strings.Join(names, ", ")
}
