package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/cqltype"
)

const (
	rowTables     = 12
	rowPartitions = 6
	rowsEach      = 15
)

// rowTable is a table of random key columns. All its values are JSON.
type rowTable struct {
	name       string
	partition  []rowColumn
	clustering []rowColumn
	// columns has the types of all columns, including static and regular ones.
	columns map[string]*cqltype.Type
	// keys has the partitions with rows.
	keys [][]string
}

// rowColumn is a key column with the few values that its rows have.
type rowColumn struct {
	name       string
	draw       generator
	descending bool
	values     []string
}

// pick draws a value: mostly one that rows have.
func (c rowColumn) pick(r *rand.Rand) string {
	if r.IntN(8) == 0 {
		return c.draw(r)
	}
	return oneOf(r, c.values)
}

// rowTableNames returns the names of the tables of createRows, for the configuration.
func rowTableNames() []string {
	names := make([]string, rowTables)
	for i := range names {
		names[i] = fmt.Sprintf("slices.t%d", i)
	}
	return names
}

// createRows creates tables with one to three clustering columns, ascending and descending, with
// and without a static column. Together they have every type that a clustering column may have.
func createRows(t *testing.T, client *cassandra.Client) []*rowTable {
	t.Helper()
	r := rand.New(rand.NewPCG(21, 22))
	types := maps.Clone(natives)
	types["frozen<list<int>>"] = listOf(natives["int"], 3)
	types["frozen<map<text, int>>"] = mapOf(natives["text"], natives["int"], 2)
	types["frozen<tuple<int, text>>"] = tupleOf(natives["int"], natives["text"])
	names := slices.Sorted(maps.Keys(types))
	next := 0
	statements := []string{"CREATE KEYSPACE slices WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}"}
	tables := make([]*rowTable, rowTables)
	for i, name := range rowTableNames() {
		table := &rowTable{name: name, columns: map[string]*cqltype.Type{}}
		var definitions, order []string
		column := func(name, typ string) rowColumn {
			c := rowColumn{name: name, draw: types[typ], descending: r.IntN(2) == 0}
			for range 4 {
				c.values = append(c.values, c.draw(r))
			}
			definitions = append(definitions, name+" "+typ)
			return c
		}
		for k := range 1 + i%2 {
			table.partition = append(table.partition, column(fmt.Sprintf("p%d", k), []string{"text", "int"}[k]))
		}
		for k := range 1 + i%3 {
			c := column(fmt.Sprintf("c%d", k), names[next%len(names)])
			next++
			table.clustering = append(table.clustering, c)
			order = append(order, c.name+map[bool]string{false: " ASC", true: " DESC"}[c.descending])
		}
		definitions = append(definitions, "v text")
		if i%4 < 2 {
			definitions = append(definitions, "s text static")
		}
		for _, d := range definitions {
			name, typ, _ := strings.Cut(strings.TrimSuffix(d, " static"), " ")
			parsed, err := cqltype.Parse(typ, nil, "slices")
			require.NoError(t, err)
			table.columns[name] = parsed
		}
		tables[i] = table
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY ((%s), %s)) WITH CLUSTERING ORDER BY (%s)", name,
			strings.Join(definitions, ", "), strings.Join(columnNames(table.partition), ", "), strings.Join(columnNames(table.clustering), ", "), strings.Join(order, ", ")))
	}
	require.GreaterOrEqual(t, next, len(names), "every type is a clustering column")
	define(t, client, statements...)
	for _, table := range tables {
		table.fill(t, client, r)
	}
	return tables
}

func columnNames(columns []rowColumn) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}

// fill writes some rows to some partitions, and one partition that has only a static column.
func (table *rowTable) fill(t *testing.T, client *cassandra.Client, r *rand.Rand) {
	t.Helper()
	_, static := table.columns["s"]
	var rows []string
	for i := range rowPartitions {
		key := make([]string, len(table.partition))
		for k, c := range table.partition {
			key[k] = oneOf(r, c.values)
		}
		table.keys = append(table.keys, key)
		if static {
			var where []string
			for k, c := range table.partition {
				where = append(where, c.name+" = "+fromJSON(key[k]))
			}
			execute(t, client, fmt.Sprintf("UPDATE %s SET s = 'static %d' WHERE %s", table.name, i, strings.Join(where, " AND ")))
		}
		if static && i == 0 {
			continue
		}
		for n := range rowsEach {
			row := map[string]json.RawMessage{"v": json.RawMessage(quoted(fmt.Sprintf("%d/%d", i, n)))}
			for k, c := range table.partition {
				row[c.name] = json.RawMessage(key[k])
			}
			for _, c := range table.clustering {
				row[c.name] = json.RawMessage(oneOf(r, c.values))
			}
			data, err := json.Marshal(row)
			require.NoError(t, err)
			rows = append(rows, string(data))
		}
	}
	load(t, client, "INSERT INTO "+table.name+" JSON ? DEFAULT UNSET", len(rows), func(i int) []any { return []any{rows[i]} })
}

// rowLookup is a lookup of rows: keys as JSON values, and conditions on clustering columns.
type rowLookup struct {
	table   *rowTable
	keys    [][]string
	where   []rowCondition
	reverse bool
	limit   int
	columns []string // empty for all
}

type rowCondition struct {
	column   string
	operator string // as in a request
	values   []string
}

var cqlOperators = map[string]string{"eq": "=", "in": "IN", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}

var wireOperators = map[string]qosproxyv1.Operator{
	"eq": qosproxyv1.Operator_OPERATOR_EQUAL, "in": qosproxyv1.Operator_OPERATOR_IN, "gt": qosproxyv1.Operator_OPERATOR_GREATER,
	"gte": qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL, "lt": qosproxyv1.Operator_OPERATOR_LESS, "lte": qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL,
}

// randomRowLookup draws key prefixes, conditions, orders and limits. Prefixes of different lengths
// are mixed unless there are conditions.
func randomRowLookup(r *rand.Rand, tables []*rowTable) *rowLookup {
	q := &rowLookup{table: oneOf(r, tables), reverse: r.IntN(3) == 0}
	if r.IntN(3) == 0 {
		q.limit = 1 + r.IntN(6)
	}
	prefix, sliced := r.IntN(len(q.table.clustering)), r.IntN(2) == 0
	if sliced {
		q.drawWhere(r, prefix)
	}
	for range 1 + r.IntN(12) {
		key := slices.Clone(oneOf(r, q.table.keys))
		if r.IntN(10) == 0 {
			key[0] = q.table.partition[0].draw(r)
		}
		n := prefix
		if !sliced {
			n = r.IntN(len(q.table.clustering) + 1)
		}
		for _, c := range q.table.clustering[:n] {
			key = append(key, c.pick(r))
		}
		q.keys = append(q.keys, key)
	}
	if r.IntN(2) == 0 {
		q.drawColumns(r)
	}
	return q
}

// drawColumns draws the columns. It never draws static columns alone where rows are restricted,
// which Cassandra refuses.
func (q *rowLookup) drawColumns(r *rand.Rand) {
	named := func(key []string) bool { return len(key) > len(q.table.partition) }
	rows := len(q.where) > 0 || slices.ContainsFunc(q.keys, named)
	_, static := q.table.columns["s"]
	switch {
	case static && !rows && !q.reverse && r.IntN(2) == 0:
		q.columns = []string{"s"}
	case static && r.IntN(2) == 0:
		q.columns = []string{"s", "v"}
	case r.IntN(2) == 0:
		q.columns = []string{q.table.clustering[0].name}
	default:
		q.columns = []string{"v", q.table.partition[0].name}
	}
}

// ofRows reports whether a column is read that is not static.
func (q *rowLookup) ofRows() bool {
	return !slices.Equal(q.columns, []string{"s"})
}

// drawWhere draws conditions on the clustering columns beginning with number from.
func (q *rowLookup) drawWhere(r *rand.Rand, from int) {
	for _, c := range q.table.clustering[from:] {
		switch r.IntN(5) {
		case 0, 1:
			q.where = append(q.where, rowCondition{c.name, "eq", []string{c.pick(r)}})
			continue
		case 2:
			q.where = append(q.where, rowCondition{c.name, "in", []string{c.pick(r), c.pick(r), c.pick(r)}})
			continue
		case 3:
			if lower := r.IntN(3); lower > 0 {
				q.where = append(q.where, rowCondition{c.name, []string{"", "gt", "gte"}[lower], []string{c.pick(r)}})
			}
			if upper := r.IntN(3); upper > 0 {
				q.where = append(q.where, rowCondition{c.name, []string{"", "lt", "lte"}[upper], []string{c.pick(r)}})
			}
		}
		return
	}
}

// cql returns the statement that reads one key from Cassandra.
func (q *rowLookup) cql(key []string) string {
	var b strings.Builder
	columns := "*"
	if len(q.columns) > 0 {
		columns = strings.Join(q.columns, ", ")
	}
	fmt.Fprintf(&b, "SELECT JSON %s FROM %s", columns, q.table.name)
	separator := " WHERE "
	restrict := func(column, operator, value string) {
		b.WriteString(separator + column + " " + operator + " " + value)
		separator = " AND "
	}
	for i, c := range slices.Concat(q.table.partition, q.table.clustering)[:len(key)] {
		restrict(c.name, "=", fromJSON(key[i]))
	}
	for _, w := range q.where {
		values := make([]string, len(w.values))
		for i, v := range w.values {
			values[i] = fromJSON(v)
		}
		value := strings.Join(values, ", ")
		if w.operator == "in" {
			value = "(" + value + ")"
		}
		restrict(w.column, cqlOperators[w.operator], value)
	}
	if c := q.table.clustering[0]; q.reverse {
		fmt.Fprintf(&b, " ORDER BY %s %s", c.name, map[bool]string{false: "DESC", true: "ASC"}[c.descending])
	}
	if q.limit > 0 {
		fmt.Fprintf(&b, " LIMIT %d", q.limit)
	}
	return b.String()
}

func fromJSON(value string) string { return "fromJson('" + strings.ReplaceAll(value, "'", "''") + "')" }

// want returns the rows of each key as Cassandra selects them.
func (q *rowLookup) want(ctx context.Context, client *cassandra.Client) ([][]string, error) {
	out := make([][]string, len(q.keys))
	for i, key := range q.keys {
		rows, err := client.Query(ctx, q.cql(key))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.cql(key), err)
		}
		for _, row := range rows {
			out[i] = append(out[i], row["[json]"].(string))
		}
	}
	return out, nil
}

// body returns the lookup as JSON, with keys in one of the two forms.
func (q *rowLookup) body(r *rand.Rand) string {
	var keys []string
	columns := slices.Concat(q.table.partition, q.table.clustering)
	for _, key := range q.keys {
		form := "[" + strings.Join(key, ",") + "]"
		if len(key) > 1 && r.IntN(3) == 0 {
			var members []string
			for i, v := range key {
				members = append(members, quoted(columns[i].name)+":"+v)
			}
			form = "{" + strings.Join(members, ",") + "}"
		}
		keys = append(keys, form)
	}
	body := `{"keys": [` + strings.Join(keys, ",") + `]`
	if where := q.whereJSON(); where != "" {
		body += `, "where": ` + where
	}
	if q.reverse {
		body += `, "order": "reverse"`
	}
	if len(q.columns) > 0 {
		body += `, "columns": ["` + strings.Join(q.columns, `", "`) + `"]`
	}
	if q.limit > 0 {
		body += fmt.Sprintf(`, "limit_per_key": %d`, q.limit)
	}
	return body + "}"
}

func (q *rowLookup) whereJSON() string {
	var columns []string
	members := map[string][]string{}
	for _, w := range q.where {
		value := w.values[0]
		if w.operator == "in" {
			value = "[" + strings.Join(w.values, ",") + "]"
		}
		if members[w.column] == nil {
			columns = append(columns, w.column)
		}
		members[w.column] = append(members[w.column], quoted(w.operator)+":"+value)
	}
	for i, c := range columns {
		columns[i] = quoted(c) + ": {" + strings.Join(members[c], ",") + "}"
	}
	if len(columns) == 0 {
		return ""
	}
	return "{" + strings.Join(columns, ",") + "}"
}

// grpc returns the lookup as a gRPC request, with values and cells in CQL's encoding.
func (q *rowLookup) grpc() (*qosproxyv1.BatchGetRequest, error) {
	keyspace, name, _ := strings.Cut(q.table.name, ".")
	req := &qosproxyv1.BatchGetRequest{Keyspace: keyspace, Table: name, Encoding: qosproxyv1.Encoding_ENCODING_CQL, LimitPerKey: int32(q.limit), Columns: q.columns}
	value := func(column, text string) (*qosproxyv1.Value, error) {
		cell, err := q.table.columns[column].EncodeJSON([]byte(text))
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: cell}}, err
	}
	columns := slices.Concat(q.table.partition, q.table.clustering)
	for _, key := range q.keys {
		k := &qosproxyv1.Key{}
		for i, text := range key {
			v, err := value(columns[i].name, text)
			if err != nil {
				return nil, err
			}
			k.Components = append(k.Components, v)
		}
		req.Keys = append(req.Keys, k)
	}
	for _, w := range q.where {
		c := &qosproxyv1.Condition{Column: w.column, Operator: wireOperators[w.operator]}
		for _, text := range w.values {
			v, err := value(w.column, text)
			if err != nil {
				return nil, err
			}
			c.Values = append(c.Values, v)
		}
		req.Where = append(req.Where, c)
	}
	if q.reverse {
		req.Order = qosproxyv1.Order_ORDER_REVERSE
	}
	return req, nil
}

// rowsGRPC returns the rows of each key by gRPC, as JSON.
func (p *proxy) rowsGRPC(ctx context.Context, q *rowLookup) ([][]string, error) {
	req, err := q.grpc()
	if err != nil {
		return nil, err
	}
	resp, err := p.grpc.BatchGet(ctx, req)
	if err != nil {
		return nil, err
	}
	return q.rowsOf(resp)
}

// rowsOf returns the rows of each key of an answer, as JSON.
func (q *rowLookup) rowsOf(resp *qosproxyv1.BatchGetResponse) (out [][]string, err error) {
	out = make([][]string, len(resp.GetResults()))
	for i, res := range resp.GetResults() {
		if found := res.GetStatus() == qosproxyv1.KeyStatus_KEY_STATUS_FOUND; found != (len(res.GetRows()) > 0) || res.GetError() != "" {
			return nil, fmt.Errorf("key %d is %s with %d rows: %s", i, res.GetStatus(), len(res.GetRows()), res.GetError())
		}
		for _, row := range res.GetRows() {
			object := []byte{'{'}
			for c, v := range row.GetValues() {
				name := resp.GetColumns()[c].GetName()
				if c > 0 {
					object = append(object, ',')
				}
				object = append(object, quoted(name)+":"...)
				if _, null := v.GetKind().(*qosproxyv1.Value_Null); null {
					object = append(object, "null"...)
					continue
				}
				if object, err = q.table.columns[name].AppendJSON(object, v.GetCql()); err != nil {
					return nil, err
				}
			}
			out[i] = append(out[i], string(append(object, '}')))
		}
	}
	return out, nil
}

// rowsHTTP returns the rows of each key by HTTP.
func (p *proxy) rowsHTTP(ctx context.Context, q *rowLookup, body string) ([][]string, error) {
	code, a, err := p.post(ctx, q.table.name, body)
	if err != nil {
		return nil, err
	}
	return rowsOfHTTP(code, a)
}

// rowsOfHTTP returns the rows of each key of an answer.
func rowsOfHTTP(code int, a *answer) ([][]string, error) {
	if code != 200 {
		return nil, fmt.Errorf("status %d: %+v", code, a)
	}
	out := make([][]string, len(a.Results))
	for i, res := range a.Results {
		if found := res.Status == "FOUND"; found != (len(res.Rows) > 0) || res.Error != "" {
			return nil, fmt.Errorf("key %d is %s with %d rows: %s", i, res.Status, len(res.Rows), res.Error)
		}
		for _, row := range res.Rows {
			out[i] = append(out[i], string(row))
		}
	}
	return out, nil
}

// sameRows compares the rows of all keys member by member.
func sameRows(want, got [][]string) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d results for %d keys", len(got), len(want))
	}
	for i := range want {
		if len(want[i]) != len(got[i]) {
			return fmt.Errorf("key %d has %d rows, want %d: %s, want %s", i, len(got[i]), len(want[i]), got[i], want[i])
		}
		for n := range want[i] {
			w, err := membersOfRow(want[i][n])
			if err != nil {
				return err
			}
			g, err := membersOfRow(got[i][n])
			if err != nil {
				return err
			}
			if !maps.Equal(w, g) {
				return fmt.Errorf("key %d, row %d is %s, want %s", i, n, got[i][n], want[i][n])
			}
		}
	}
	return nil
}

func membersOfRow(row string) (map[string]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(row), &members); err != nil {
		return nil, err
	}
	out := make(map[string]string, len(members))
	for name, value := range members {
		var b bytes.Buffer
		if err := json.Compact(&b, value); err != nil {
			return nil, err
		}
		out[name] = b.String()
	}
	return out, nil
}

// testRows makes random lookups of rows through both listeners in turn, whole and in pages, and
// compares the results with Cassandra's own SELECT of each key.
func testRows(t *testing.T, p *proxy, client *cassandra.Client, tables []*rowTable, lookups int) {
	group, ctx := errgroup.WithContext(t.Context())
	var rows [lookupWorkers]int
	for worker := range lookupWorkers {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(23, uint64(worker)))
			for i := worker; i < lookups; i += lookupWorkers {
				q := randomRowLookup(r, tables)
				body := q.body(r)
				want, err := q.want(ctx, client)
				if err != nil {
					return err
				}
				var got [][]string
				if i/lookupWorkers%2 == 0 {
					got, err = p.rowsHTTP(ctx, q, body)
				} else {
					got, err = p.rowsGRPC(ctx, q)
				}
				if err == nil {
					err = sameRows(want, got)
				}
				if err == nil && q.limit == 0 && q.ofRows() {
					if got, err = p.pages(ctx, q, r); err == nil {
						err = sameRows(want, got)
					}
				}
				if err != nil {
					return fmt.Errorf("lookup %d of %s: %s: %w", i, q.table.name, body, err)
				}
				for _, of := range want {
					rows[worker] += len(of)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	total := 0
	for _, n := range rows {
		total += n
	}
	require.Positive(t, total)
	t.Logf("%d lookups with %d rows, all as Cassandra selects them", lookups, total)
}

// testFunctions compares the write times and TTLs of cells with what Cassandra selects, for every
// column that has them.
func testFunctions(t *testing.T, p *proxy, client *cassandra.Client, rows int) {
	execute(t, client, "INSERT INTO data.features (user, feature, v, s) VALUES ('expiring', 1, 'x', 'y') USING TTL 86400 AND TIMESTAMP 1234567")
	types, _ := typeColumns()
	var columns []string
	for i, typ := range types {
		several := strings.HasPrefix(typ, "list<") || strings.HasPrefix(typ, "set<") || strings.HasPrefix(typ, "map<") || typ == "address"
		name := fmt.Sprintf("writetime(c%d)", i)
		if several {
			code, a, err := p.post(t.Context(), "types.wide", `{"keys": [1], "columns": ["`+name+`"]}`)
			require.NoError(t, err)
			require.Equal(t, 400, code, "%s of %s", name, typ)
			require.Equal(t, "columns[0]", a.Error.Field)
			continue
		}
		columns = append(columns, name)
	}
	for table, c := range map[string]struct {
		columns []string
		keys    []string
		where   string
	}{
		"types.wide":    {columns, ids(rows), "id = %s"},
		"types.counts":  {[]string{"writetime(n)", "n"}, []string{`"a"`}, "id = fromJson('%s')"},
		"data.features": {[]string{"v", "writetime(v)", "writetime(s)"}, []string{`"` + plainKey(1) + `"`, `"expiring"`}, "user = fromJson('%s')"},
	} {
		names, err := json.Marshal(c.columns)
		require.NoError(t, err)
		code, got, err := p.post(t.Context(), table, `{"keys": [`+strings.Join(c.keys, ",")+`], "columns": `+string(names)+`}`)
		require.NoError(t, err)
		require.Equal(t, 200, code, "%+v", got)
		for i, k := range c.keys {
			want, err := client.Query(t.Context(), "SELECT JSON "+strings.Join(c.columns, ", ")+" FROM "+table+" WHERE "+fmt.Sprintf(c.where, k))
			require.NoError(t, err)
			var w, g []string
			for n := range want {
				w = append(w, want[n]["[json]"].(string))
			}
			for _, row := range got.Results[i].Rows {
				g = append(g, string(row))
			}
			require.NoError(t, sameRows([][]string{w}, [][]string{g}), "%s %s", table, k)
		}
	}
	_, got, err := p.post(t.Context(), "data.features", `{"keys": ["expiring"], "columns": ["ttl(v)", "ttl(s)"]}`)
	require.NoError(t, err)
	var left map[string]int
	require.NoError(t, json.Unmarshal(got.Results[0].Rows[0], &left))
	require.InDelta(t, 86400, left["ttl(v)"], 3600)
	require.InDelta(t, 86400, left["ttl(s)"], 3600)
}
