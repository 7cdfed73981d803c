package server

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// echo appends the key at i of a request as JSON, as the client sent it.
type echo func(dst []byte, req *lookup.Request, i int) ([]byte, error)

// maxPooledBuffer keeps one huge answer from occupying memory forever.
const maxPooledBuffer = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= maxPooledBuffer {
		buffers.Put(b)
	}
}

// errUndecodable is the error of a key with cells that are not valid for the type
// of their column.
var errUndecodable = errors.New("a cell is not a valid value of its column's type; read it with encoding CQL or look at it in Cassandra")

// appendResponse appends the JSON answer to a lookup. A key with undecodable
// cells becomes FAILED in resp. The error is that of echo, or of the explanation.
func appendResponse(dst []byte, req *lookup.Request, resp *lookup.Response, echo echo) ([]byte, error) {
	members := appendMembers(nil, req.Columns)
	dst = append(dst, `{"results":[`...)
	var err error
	for i := range resp.Results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		if dst, err = echo(dst, req, i); err != nil {
			return dst, err
		}
		mark := len(dst)
		if dst, err = appendResult(dst, members, req.Columns, &resp.Results[i]); err != nil {
			resp.Results[i] = partition.Unanswered(reasons.Undecodable, errUndecodable)
			if dst, err = appendResult(dst[:mark], members, req.Columns, &resp.Results[i]); err != nil {
				return dst, err
			}
		}
	}
	partial, left := leftover(resp.Results)
	dst = append(dst, `],"partial":`...)
	dst = strconv.AppendBool(dst, partial)
	dst = append(dst, `,"unprocessed_keys":[`...)
	for n, i := range left {
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = echo(dst, req, int(i)); err != nil {
			return dst, err
		}
	}
	dst = append(dst, ']')
	dst = appendStats(dst, resp.Stats)
	if req.Trace {
		if dst, err = appendExplanation(dst, resp); err != nil {
			return dst, err
		}
	}
	return append(dst, "}\n"...), nil
}

// appendMembers appends, for each column, the beginning of its member in a row: a
// brace or comma, the name and a colon.
func appendMembers(dst [][]byte, columns []schema.Column) [][]byte {
	for i, c := range columns {
		member := []byte{','}
		if i == 0 {
			member[0] = '{'
		}
		member = cqltype.AppendJSONString(member, cqltype.ColumnJSONName(c.Name))
		dst = append(dst, append(member, ':'))
	}
	return dst
}

// appendResult appends the rest of a result, after its key.
func appendResult(dst []byte, members [][]byte, columns []schema.Column, r *partition.Result) ([]byte, error) {
	dst = append(dst, `,"status":"`...)
	dst = append(dst, r.Status.String()...)
	dst = append(dst, '"')
	if why := whyOf(r); why != reasons.None {
		dst = append(dst, `,"reason":"`...)
		dst = append(dst, why.String()...)
		dst = append(dst, '"')
	}
	if reason := reasonOf(r); reason != "" {
		dst = append(dst, `,"error":`...)
		dst = cqltype.AppendJSONString(dst, reason)
	}
	if r.Status != partition.Found {
		return append(dst, '}'), nil
	}
	dst = append(dst, `,"rows":[`...)
	for i, row := range r.Rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		if len(row) != len(columns) {
			return dst, errUndecodable
		}
		for c, cell := range row {
			var err error
			dst = append(dst, members[c]...)
			if dst, err = columns[c].Type.AppendJSON(dst, cell); err != nil {
				return dst, err
			}
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if r.NextPageToken != "" {
		dst = append(dst, `,"next_page_token":`...)
		dst = cqltype.AppendJSONString(dst, r.NextPageToken)
	}
	return append(dst, '}'), nil
}

func appendStats(dst []byte, s lookup.Stats) []byte {
	for _, n := range [...]struct {
		name  string
		value int
	}{
		{`,"stats":{"keys":`, s.Keys},
		{`,"groups":`, s.Groups},
		{`,"sub_queries":`, s.SubQueries},
		{`,"hedges":`, s.Hedges},
		{`,"failovers":`, s.Failovers},
		{`,"coalesced":`, s.Coalesced},
	} {
		dst = append(dst, n.name...)
		dst = strconv.AppendInt(dst, int64(n.value), 10)
	}
	dst = append(dst, `,"elapsed_ms":`...)
	dst = strconv.AppendFloat(dst, milliseconds(s.Elapsed), 'f', -1, 64)
	return append(dst, '}')
}

// milliseconds returns d with microsecond resolution.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
