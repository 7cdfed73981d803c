package server

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// encoder encodes results in protobuf's wire format directly from the cells:
// building a tree of messages would cost several times more than the encoding. It
// serves one response.
type encoder struct {
	// raw leaves the cells undecoded.
	raw bool
	// buf is the output so far.
	buf []byte
	// open are the composite values around the next piece of a cell, outermost
	// first.
	open []composite
}

// encoderFor returns the encoder that a request asks for.
func encoderFor(e qosproxyv1.Encoding) (*encoder, error) {
	switch e {
	case qosproxyv1.Encoding_ENCODING_UNSPECIFIED, qosproxyv1.Encoding_ENCODING_VALUES:
		return &encoder{}, nil
	case qosproxyv1.Encoding_ENCODING_CQL:
		return &encoder{raw: true}, nil
	default:
		return nil, lookup.Invalid("encoding", "no encoding has the number %d; there are ENCODING_VALUES and ENCODING_CQL", int32(e))
	}
}

// The field numbers in qosproxy.proto; grpc_cells.go has those of values.
const (
	responseResults = 2
	resultStatus    = 1
	resultError     = 2
	resultRows      = 3
	resultNextPage  = 4
	resultReason    = 5
	rowValues       = 1
)

// attach adds encoded fields to a message, as unknown fields: protobuf sends
// these unchanged, and the receiver decodes them as the fields they are.
func attach(m proto.Message, fields []byte) { m.ProtoReflect().SetUnknown(fields) }

// results encodes the results of a lookup as a field of BatchGetResponse. It
// replaces a result whose cells cannot be decoded with FAILED, also in the
// argument.
func (e *encoder) results(columns []schema.Column, results []partition.Result) []byte {
	const perResult, perRow, perCell = 8, 4, 10 // approximate sizes of tags and lengths
	size := 0
	for i := range results {
		r := &results[i]
		size += perResult + r.Bytes + len(r.Rows)*(perRow+perCell*len(columns))
	}
	e.buf = make([]byte, 0, size)
	for i := range results {
		at := e.begin(responseResults)
		e.result(columns, &results[i])
		e.end(at)
	}
	return e.buf
}

// result appends the fields of a KeyResult.
func (e *encoder) result(columns []schema.Column, r *partition.Result) {
	if r.Status == partition.Found {
		mark := len(e.buf)
		if err := e.rows(columns, r.Rows); err != nil {
			*r = partition.Unanswered(reasons.Undecodable, errUndecodable)
			e.buf = e.buf[:mark]
		}
	}
	e.buf = appendVarint(e.buf, resultStatus, uint64(statusesOf[r.Status]))
	if reason := reasonOf(r); reason != "" {
		e.buf = appendBytes(e.buf, resultError, []byte(reason))
	}
	if r.NextPageToken != "" {
		e.buf = appendBytes(e.buf, resultNextPage, []byte(r.NextPageToken))
	}
	if why := whyOf(r); why != reasons.None {
		e.buf = appendVarint(e.buf, resultReason, uint64(why))
	}
}

func (e *encoder) rows(columns []schema.Column, rows []partition.Row) error {
	for _, row := range rows {
		if len(row) != len(columns) {
			return errUndecodable
		}
		at := e.begin(resultRows)
		for c, cell := range row {
			value := e.begin(rowValues)
			if err := e.value(columns[c].Type, cell); err != nil {
				return err
			}
			e.end(value)
		}
		e.end(at)
	}
	return nil
}

// value appends the fields of a Value.
func (e *encoder) value(t *cqltype.Type, cell []byte) error {
	if e.raw && cell != nil {
		e.buf = appendBytes(e.buf, kindCql, cell)
		return nil
	}
	e.open = e.open[:0]
	return t.Walk(cell, e)
}

// begin starts a message in a field, and returns its offset for end.
func (e *encoder) begin(field protowire.Number) int {
	e.buf = append(protowire.AppendTag(e.buf, field, protowire.BytesType), 0)
	return len(e.buf)
}

// end writes the length in front of the message that began at that offset. One
// byte is reserved for it, which is enough for most messages; longer ones are
// moved.
func (e *encoder) end(at int) {
	size := len(e.buf) - at
	if size < 0x80 {
		e.buf[at-1] = byte(size)
		return
	}
	var length [10]byte
	prefix := protowire.AppendVarint(length[:0], uint64(size))
	e.buf = append(e.buf, prefix[1:]...)
	copy(e.buf[at+len(prefix)-1:], e.buf[at:at+size])
	copy(e.buf[at-1:], prefix)
}
