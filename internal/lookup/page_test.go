package lookup_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// logTable is a table with the clustering columns day and line, all of which may be read.
func (f *fixture) logTable(t *testing.T, name string, descending bool) *lookup.Table {
	t.Helper()
	settings := *f.table(t).Settings
	settings.Columns = nil
	return &lookup.Table{Schema: logSchema(name, descending), Columns: logSchema(name, descending).Columns, Settings: &settings}
}

// huge is a table whose clustering column is a varint.
func (f *fixture) huge(t *testing.T) *lookup.Table {
	t.Helper()
	table := f.logTable(t, "log", false)
	table.Schema = schema.NewTable("shop", "log", "id", []schema.Column{
		{Name: "host", Type: text, Kind: schema.PartitionKey}, {Name: "n", Type: &cqltype.Type{Kind: cqltype.VarInt}, Kind: schema.Clustering}})
	table.Columns = table.Schema.Columns
	return table
}

func logSchema(name string, descending bool) *schema.Table {
	number := &cqltype.Type{Kind: cqltype.Int}
	return schema.NewTable("shop", name, "id", []schema.Column{
		{Name: "host", Type: text, Kind: schema.PartitionKey}, {Name: "day", Type: number, Kind: schema.Clustering, Descending: descending},
		{Name: "line", Type: number, Kind: schema.Clustering}, {Name: "state", Type: text, Kind: schema.Static}, {Name: "v", Type: text, Kind: schema.Regular}})
}

func rowKey(t testing.TB, parts ...string) partition.Key {
	t.Helper()
	var components [][]byte
	for _, p := range parts {
		components = append(components, []byte(p))
	}
	k, err := partition.NewRowKey(1, components...)
	require.NoError(t, err)
	return k
}

// The days are values of an int.
const (
	day1 = "\x00\x00\x00\x01"
	day2 = "\x00\x00\x00\x02"
	day3 = "\x00\x00\x00\x03"
)

// paged answers each key with one row of day 2, line 3, and says that more rows follow.
func paged(asked *[]*executor.SubQuery) func(context.Context, *executor.SubQuery) ([]partition.Result, error) {
	return func(_ context.Context, q *executor.SubQuery) ([]partition.Result, error) {
		defer q.Settled()
		*asked = append(*asked, q)
		results := make([]partition.Result, len(q.Keys))
		for i := range q.Keys {
			row := partition.Row{}
			for _, c := range q.Columns {
				row = append(row, map[string][]byte{"day": []byte(day2), "line": []byte(day3), "v": []byte("x"), "host": []byte("h"), "state": nil}[c.Name])
			}
			results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{row}, Bytes: 9, More: q.Paged}
		}
		return results, nil
	}
}

func TestAPageGoesOnBehindItsLastRow(t *testing.T) {
	f := newFixture(t)
	var asked []*executor.SubQuery
	f.reads = paged(&asked)
	table := f.logTable(t, "log", false)
	v, _ := table.Schema.Column("v")
	req := &lookup.Request{Table: table, Keys: []partition.Key{rowKey(t, "a"), rowKey(t, "a", day2), rowKey(t, "a")}, Columns: []schema.Column{v}, LimitPerKey: 2, Paging: true}
	resp, err := f.Get(t.Context(), req)
	require.NoError(t, err)
	var tokens []string
	for _, r := range resp.Results {
		assert.Equal(t, []partition.Row{{[]byte("x")}}, r.Rows, "the clustering columns are read for the token alone")
		assert.NotEmpty(t, r.NextPageToken)
		tokens = append(tokens, r.NextPageToken)
	}
	assert.Equal(t, tokens[0], tokens[2])
	assert.NotEqual(t, tokens[0], tokens[1])
	assert.True(t, asked[0].Paged)
	assert.False(t, asked[0].Strict)

	asked, req.PageTokens = nil, []string{tokens[0], tokens[1], ""}
	_, err = f.Get(t.Context(), req)
	require.NoError(t, err)
	var cursors [][][]byte
	for _, q := range asked {
		for _, k := range q.Keys {
			cursors = append(cursors, k.Cursor())
		}
	}
	assert.ElementsMatch(t, [][][]byte{{[]byte(day2), []byte(day3)}, {[]byte(day3)}, nil}, cursors, "the same key from its first row on is another")

	req.Paging, req.PageTokens = false, nil
	resp, err = f.Get(t.Context(), req)
	require.NoError(t, err)
	assert.Empty(t, resp.Results[0].NextPageToken)
}

// TestATokenIsOfOneKeyOfOneTableInOneOrder sends tokens that do not fit the request, and
// requests for which there are no pages.
func TestATokenIsOfOneKeyOfOneTableInOneOrder(t *testing.T) {
	f := newFixture(t)
	var asked []*executor.SubQuery
	f.reads = paged(&asked)
	token := func(table *lookup.Table, k partition.Key, s *partition.Slice) string {
		resp, err := f.Get(t.Context(), &lookup.Request{Table: table, Keys: []partition.Key{k}, Slice: s, Paging: true})
		require.NoError(t, err)
		return resp.Results[0].NextPageToken
	}
	table, a := f.logTable(t, "log", false), rowKey(t, "a")
	good := token(table, a, nil)
	raw, err := base64.RawURLEncoding.DecodeString(good)
	require.NoError(t, err)
	changed := func(change func([]byte) []byte) string {
		return base64.RawURLEncoding.EncodeToString(change(slices.Clone(raw)))
	}
	asked = nil
	for name, test := range map[string]struct {
		token string
		want  string
	}{
		"of another key":       {token(table, rowKey(t, "b"), nil), "page_tokens[0]: it is not the token"},
		"of rows of the key":   {token(table, rowKey(t, "a", day2), nil), "page_tokens[0]: it is not the token"},
		"of another table":     {token(f.logTable(t, "other", false), a, nil), "page_tokens[0]: it is not the token"},
		"of another order":     {token(table, a, &partition.Slice{Reverse: true}), "page_tokens[0]: it is not the token"},
		"of the table before":  {token(f.logTable(t, "log", true), a, nil), "page_tokens[0]: it is not the token"},
		"no base64":            {"!", "page_tokens[0]: it is not the token"},
		"too short":            {"AA", "page_tokens[0]: it is not the token"},
		"cut":                  {changed(func(b []byte) []byte { return b[:len(b)-1] }), "page_tokens[0]: it is not the token"},
		"of another version":   {changed(func(b []byte) []byte { b[0]++; return b }), "page_tokens[0]: it is not the token"},
		"with another value":   {changed(func(b []byte) []byte { b[len(b)-1]++; return b }), "page_tokens[0]: it is not the token"},
		"as it was given":      {good, ""},
		"empty":                {"", ""},
		"with something after": {changed(func(b []byte) []byte { return append(b, 0) }), "page_tokens[0]: it is not the token"},
	} {
		_, err := f.Get(t.Context(), &lookup.Request{Table: table, Keys: []partition.Key{a}, PageTokens: []string{test.token}, Paging: true})
		if test.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.want, name)
		require.ErrorIs(t, err, lookup.ErrInvalid, name)
	}
	state, _ := table.Schema.Column("state")
	full := rowKey(t, "a", day1, day2)
	for name, test := range map[string]struct {
		req  lookup.Request
		want string
	}{
		"tokens without pages":   {lookup.Request{Table: table, Keys: []partition.Key{a}, PageTokens: []string{good}}, "page_tokens: they go on with pages"},
		"a token too few":        {lookup.Request{Table: table, Keys: []partition.Key{a, a}, PageTokens: []string{good}, Paging: true}, "page_tokens: 1 tokens for 2 keys"},
		"of static columns":      {lookup.Request{Table: table, Keys: []partition.Key{a}, Columns: []schema.Column{state}, Paging: true}, "columns: a partition has them once"},
		"a token of a row":       {lookup.Request{Table: table, Keys: []partition.Key{full}, PageTokens: []string{good}, Paging: true}, "page_tokens[0]: it is not the token"},
		"of a table without any": {lookup.Request{Table: f.table(t), Keys: keys(t, "a"), PageTokens: []string{good}, Paging: true}, "page_tokens[0]: it is not the token"},
	} {
		_, err := f.Get(t.Context(), &test.req)
		require.ErrorContains(t, err, test.want, name)
	}
	// Converting such a varint to decimal would take seconds, and no key has so many bytes.
	_, err = f.Get(t.Context(), &lookup.Request{Table: f.huge(t), Keys: []partition.Key{a}, Paging: true, PageTokens: []string{
		lookup.Tagged(&lookup.Request{Table: f.huge(t), Keys: []partition.Key{a}}, append(binary.AppendUvarint(nil, 65536), make([]byte, 65536)...))}})
	require.ErrorContains(t, err, "page_tokens[0]: it is not the token")
	_, err = f.Get(t.Context(), &lookup.Request{Table: f.table(t), Keys: keys(t, "a"), Paging: true})
	require.NoError(t, err, "a key of a table without clustering columns has one page")
}

// TestPagesTellNoValueThatMayNotBeRead has a table with one clustering column that may not be
// read.
func TestPagesTellNoValueThatMayNotBeRead(t *testing.T) {
	f := newFixture(t)
	closed := events()
	closed.Columns = closed.Schema.Columns[:2]
	_, err := f.Get(t.Context(), &lookup.Request{Table: closed, Keys: []partition.Key{rowKey(t, "k")}, Paging: true})
	require.ErrorIs(t, err, lookup.ErrForbidden)
	require.ErrorContains(t, err, "paging: ")
	_, err = f.Get(t.Context(), &lookup.Request{Table: f.logTable(t, "log", false).Narrow([]string{"host", "day", "v"}), Keys: []partition.Key{rowKey(t, "k")}, Paging: true})
	require.ErrorIs(t, err, lookup.ErrForbidden)
}

// FuzzPageToken reads tokens that anybody may make up: each must be refused or name a row.
func FuzzPageToken(f *testing.F) {
	table := &lookup.Table{Schema: logSchema("log", false)}
	for _, seed := range []string{"", "AQ", "AQAAAAAAAAAAAAAA", "AX__________BAAAAAIEAAAAAw"} {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, token string, reverse bool) {
		req := &lookup.Request{Table: table, Keys: []partition.Key{rowKey(t, "a")}, PageTokens: []string{token}, Slice: &partition.Slice{Reverse: reverse}, Paging: true}
		next, err := req.Continued()
		switch {
		case err != nil:
			require.ErrorIs(t, err, lookup.ErrInvalid)
		case token == "":
			require.Nil(t, next.Keys[0].Cursor())
		default:
			require.Len(t, next.Keys[0].Cursor(), 2)
		}
		// With the right tag, to reach the code behind the check of the tag.
		if tagged := lookup.Tagged(req, []byte(token)); tagged != "" {
			req.PageTokens[0] = tagged
			if next, err := req.Continued(); err == nil {
				for i, cell := range next.Keys[0].Cursor() {
					_, err := table.Schema.Clustering[i].Type.AppendJSON(nil, cell)
					require.NoError(t, err)
				}
			}
		}
	})
}
