package server

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshal(b []byte, m proto.Message) error { return proto.Unmarshal(b, m) }

// fifty is a response of 50 keys with a row of six columns each.
func fifty(b *testing.B) (*lookup.Request, *lookup.Response) {
	tbl := table(b, "products", 1, "id text", "name text", "price double", "stock int", "sold bigint", "tags list<text>")
	req := &lookup.Request{Table: tbl, Columns: tbl.Columns}
	resp := &lookup.Response{Stats: lookup.Stats{Keys: 50, Groups: 4, SubQueries: 4}}
	for i := range 50 {
		var row partition.Row
		for c, json := range []string{fmt.Sprintf(`"sku-%d"`, i), `"A kettle of stainless steel, 1.7 litres"`, `19.5`, `7`, `123456789`, `["kitchen","steel"]`} {
			row = append(row, cell(b, tbl.Columns[c].Type, json))
		}
		resp.Results = append(resp.Results, partition.Result{Status: partition.Found, Rows: []partition.Row{row}})
	}
	return req, resp
}

func BenchmarkEncode50KeysAsJSON(b *testing.B) {
	req, resp := fifty(b)
	key := []byte(`"sku-1"`)
	echo := func(dst []byte, _ *lookup.Request, _ int) ([]byte, error) { return appendCompact(dst, key), nil }
	b.ReportAllocs()
	for b.Loop() {
		buf := takeBuffer()
		var err error
		if *buf, err = appendResponse((*buf)[:0], req, resp, echo); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(*buf)))
		giveBuffer(buf)
	}
}

func benchmarkProto(b *testing.B, encoding qosproxyv1.Encoding) {
	req, resp := fifty(b)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		e, err := encoderFor(encoding)
		if err != nil {
			b.Fatal(err)
		}
		m := &qosproxyv1.BatchGetResponse{Columns: columnsOf(req.Columns), Stats: statsOf(resp.Stats)}
		attach(m, e.results(req.Columns, resp.Results))
		if buf, err = (proto.MarshalOptions{}).MarshalAppend(buf[:0], m); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(buf)))
	}
}

func BenchmarkEncode50KeysAsValues(b *testing.B) {
	benchmarkProto(b, qosproxyv1.Encoding_ENCODING_VALUES)
}

func BenchmarkEncode50KeysAsCQL(b *testing.B) {
	benchmarkProto(b, qosproxyv1.Encoding_ENCODING_CQL)
}

func BenchmarkDecode50Keys(b *testing.B) {
	tbl := table(b, "products", 1, "id text", "name text")
	body := []byte(`{"keys":["sku-0"`)
	var in qosproxyv1.BatchGetRequest
	in.Keys = append(in.Keys, key(text("sku-0")))
	for i := range 49 {
		body = fmt.Appendf(body, `,"sku-%d"`, i+1)
		in.Keys = append(in.Keys, key(text(fmt.Sprintf("sku-%d", i+1))))
	}
	body = append(body, `],"columns":["name"],"timeout":"50ms"}`...)
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			in, err := decodeBatchGet(body)
			if err != nil {
				b.Fatal(err)
			}
			encodeAll(b, jsonKeys(tbl.Schema, splitArray(in.array)))
		}
	})
	b.Run("proto", func(b *testing.B) {
		message := marshal(b, &in)
		b.ReportAllocs()
		for b.Loop() {
			var in qosproxyv1.BatchGetRequest
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, &in); err != nil {
				b.Fatal(err)
			}
			encodeAll(b, wireKeys(tbl.Schema, encodedKeys(&in)))
		}
	})
}

func encodeAll(b *testing.B, encode keyEncoder) {
	for i := range 50 {
		if _, err := encode(i); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefuse50Keys measures a lookup that is refused for overload, over a
// connection in memory, client included. A proxy at ten times its capacity mostly
// does this.
func BenchmarkRefuse50Keys(b *testing.B) {
	d := open(b, Deps{Admission: controller(b, 1<<20), Lookup: &fake{tables: []*lookup.Table{products(b)}}})
	in := &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products"}
	for i := range 50 {
		in.Keys = append(in.Keys, key(text(fmt.Sprintf("sku-%d", i))))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.rpc.BatchGet(b.Context(), in); status.Code(err) != codes.ResourceExhausted {
			b.Fatal(err)
		}
	}
}
