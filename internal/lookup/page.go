package lookup

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// A page token is, in URL-safe base64: pageVersion, a tag of pageTag bytes, and those
// clustering values of the last row of the page that the key does not name, each after its
// length as a varint. The tag is from a SHA-256 of what the token is bound to and of the
// values. Any proxy can continue from it at any replica. It is no secret and no proof: a forged
// token names a row by values, which its author may read and could as well put into a
// condition.
const (
	pageVersion = 1
	pageTag     = 8
)

// errNoPage refuses a token.
var errNoPage = errors.New("it is not the token of a page of this key of this table in this order; leave it empty to begin again")

// checkPages refuses pages without a column of the rows, wrong numbers of tokens, and tokens
// that would reveal a clustering column that may not be read.
func (r *Request) checkPages() error {
	switch n := len(r.PageTokens); {
	case n > 0 && !r.Paging:
		return Invalid("page_tokens", "they go on with pages; set paging, too")
	case n > 0 && n != len(r.Keys):
		return Invalid("page_tokens", "%d tokens for %d keys; give one for each, empty for the first page", n, len(r.Keys))
	case !r.Paging || len(r.Table.Schema.Clustering) == 0:
		return nil
	case !r.asksOfRows():
		return Invalid("columns", "a partition has them once, so that there are no pages of them; leave paging out, or ask for a column of the rows, too")
	}
	for _, c := range r.Table.Schema.Clustering {
		if !r.Table.permits(c.Name) {
			return &Error{Reason: reasons.ForbiddenColumn, Field: "paging", Message: fmt.Sprintf(
				"%s has a clustering column that may not be read by this client, and page tokens hold its values", r.Table.Schema)}
		}
	}
	return nil
}

// continued returns a request whose keys begin behind their page tokens; r itself without
// tokens.
func (r *Request) continued() (*Request, error) {
	if !slices.ContainsFunc(r.PageTokens, func(t string) bool { return t != "" }) {
		return r, nil
	}
	next := *r
	next.Keys = slices.Clone(r.Keys)
	for i, token := range r.PageTokens {
		if token == "" {
			continue
		}
		cursor, err := r.cursor(i, token)
		if err == nil {
			next.Keys[i], err = r.Keys[i].Behind(cursor)
		}
		if err != nil {
			return nil, Invalid(fmt.Sprintf("page_tokens[%d]", i), "%s", err)
		}
	}
	return &next, nil
}

// cursor returns the clustering values in the page token of the key at i.
func (r *Request) cursor(i int, token string) ([][]byte, error) {
	columns := r.Table.Schema.Clustering[min(r.namedBy(i), len(r.Table.Schema.Clustering)):]
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(columns) == 0 || len(data) < 1+pageTag || data[0] != pageVersion {
		return nil, errNoPage
	}
	values := data[1+pageTag:]
	if !bytes.Equal(r.tag(i, values), data[1:1+pageTag]) {
		return nil, errNoPage
	}
	cursor := make([][]byte, len(columns))
	for c := range cursor {
		size, n := binary.Uvarint(values)
		if n <= 0 || size > uint64(len(values)-n) || size > partition.MaxKeyBytes {
			return nil, errNoPage
		}
		cursor[c], values = values[n:n+int(size)], values[n+int(size):]
		if _, err := columns[c].Type.AppendJSON(nil, cursor[c]); err != nil {
			return nil, errNoPage
		}
	}
	if len(values) > 0 {
		return nil, errNoPage
	}
	return cursor, nil
}

// tag returns the tag of a page token of the key at i with these values.
func (r *Request) tag(i int, values []byte) []byte {
	h := sha256.New()
	t := r.Table.Schema
	hashed(h, []byte(t.Keyspace), []byte(t.Name), []byte{boolByte(r.Slice.Reversed())})
	for _, c := range t.Clustering {
		hashed(h, []byte(c.Name), []byte(c.Type.String()), []byte{boolByte(c.Descending)})
	}
	hashed(h, r.Keys[i].Components()...)
	hashed(h, values)
	return h.Sum(nil)[:pageTag]
}

// hashed adds values to a hash, each after its length.
func hashed(h hash.Hash, values ...[]byte) {
	for _, v := range values {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(v)))
		h.Write(size[:])
		h.Write(v)
	}
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// pages turns results into pages: it adds the page tokens, and removes the columns that were
// read only for the tokens.
type pages struct {
	req *Request
	// width is how many cells of a row were asked for. clustering are the positions of the
	// clustering values in a row.
	width      int
	clustering []int
}

// addPages adds the clustering columns to the query and returns the pages of its rows; nil
// without paging, or where a key has at most one row.
func (r *resolved) addPages() *pages {
	if !r.Paging || len(r.Table.Schema.Clustering) == 0 {
		return nil
	}
	p := &pages{req: r.Request, width: len(r.query.Columns)}
	columns := slices.Clip(r.query.Columns)
	for _, c := range r.Table.Schema.Clustering {
		at := slices.IndexFunc(columns, func(o schema.Column) bool { return o.Name == c.Name && o.Function == schema.Value })
		if at < 0 {
			at, columns = len(columns), append(columns, c)
		}
		p.clustering = append(p.clustering, at)
	}
	r.query.Columns = columns
	return p
}

// page returns res as a page of the key at i. Rows may be shared with other lookups: it copies.
func (p *pages) page(i int, res partition.Result) partition.Result {
	if res.Status != partition.Found {
		return res
	}
	if last := res.Rows[len(res.Rows)-1]; res.More {
		res.NextPageToken = p.token(i, last)
	}
	rows := make([]partition.Row, len(res.Rows))
	for n, row := range res.Rows {
		rows[n] = row[:p.width:p.width]
	}
	res.Rows = rows
	return res
}

// token returns the token of the page that begins behind row, for the key at i.
func (p *pages) token(i int, row partition.Row) string {
	var values []byte
	for _, at := range p.clustering[p.req.namedBy(i):] {
		values = binary.AppendUvarint(values, uint64(len(row[at])))
		values = append(values, row[at]...)
	}
	token := append([]byte{pageVersion}, p.req.tag(i, values)...)
	return base64.RawURLEncoding.EncodeToString(append(token, values...))
}
