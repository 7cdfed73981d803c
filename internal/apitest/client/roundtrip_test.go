package client

import (
	"bytes"
	"context"
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	"github.com/qosproxy/qosproxy/api/qosproxy/cql"
	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/server"
)

// echo is a lookup service whose tables are named after CQL types: each has a key
// of that type, and one row with the key in it.
type echo struct{}

func (echo) Table(_, name string) (*lookup.Table, error) {
	typ, err := cqltype.Parse(name, func(keyspace, name string) (*cqltype.Type, error) {
		return &cqltype.Type{Kind: cqltype.UDT, Keyspace: keyspace, Name: name, Fields: []string{"street", "Zip"},
			Elems: []*cqltype.Type{{Kind: cqltype.Text}, {Kind: cqltype.Int}}}, nil
	}, "ks")
	if err != nil {
		return nil, lookup.Invalid("table", "%v", err)
	}
	s := schema.NewTable("ks", name, "", []schema.Column{{Name: "k", Type: typ, Kind: schema.PartitionKey}})
	return &lookup.Table{Schema: s, Columns: s.Columns, Settings: &lookup.Settings{Keyspace: "ks", Table: name, MaxKeys: 100,
		MaxRowsPerKey: 1, MaxResponseBytes: 4 << 20, Timeout: time.Minute, Consistency: "LOCAL_ONE"}}, nil
}

func (echo) Get(_ context.Context, req *lookup.Request) (*lookup.Response, error) {
	results := make([]partition.Result, len(req.Keys))
	for i, k := range req.Keys {
		results[i] = partition.Result{Status: partition.Found, Rows: []partition.Row{k.Components()}}
	}
	return &lookup.Response{Results: results}, nil
}

func (echo) Stream(context.Context, *lookup.Request, func(int, partition.Result) error) (lookup.Stats, error) {
	panic("not asked")
}
func (echo) Explain(context.Context, *lookup.Request) (*lookup.Plan, error) { panic("not asked") }
func (echo) Tables() []*lookup.Table                                        { return nil }
func (echo) Ring() *ring.Ring                                               { return nil }

// roundTrip sends values of a type through the proxy and back, in both encodings.
type roundTrip struct {
	cql   string
	check func(t *rapid.T, ask func(value any, cql bool) qosproxy.Result)
}

// scanned receives a row of echo.
type scanned[T any] struct {
	K T `cql:"k"`
}

// trip returns the roundTrip of a Go type T. If value is nil, the drawn T itself is
// sent; if equal is nil, reflect.DeepEqual compares; if driver is nil, gocql decodes
// into a T.
func trip[T any](typ string, gen *rapid.Generator[T], value func(T) any, equal func(a, b T) bool, driver func(qosproxy.Result) (T, error)) roundTrip {
	if value == nil {
		value = func(v T) any { return v }
	}
	if equal == nil {
		equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
	}
	if driver == nil {
		driver = func(r qosproxy.Result) (T, error) {
			rows, err := cql.Scan[scanned[T]](r)
			if err != nil {
				var none T
				return none, err
			}
			return rows[0].K, nil
		}
	}
	return roundTrip{typ, func(t *rapid.T, ask func(any, bool) qosproxy.Result) {
		want := gen.Draw(t, typ)
		rows, err := qosproxy.Scan[scanned[T]](ask(value(want), false))
		require.NoError(t, err, "%s %v", typ, want)
		require.True(t, equal(want, rows[0].K), "%s: sent %v, came back as %v", typ, want, rows[0].K)

		raw := ask(value(want), true)
		got, err := driver(raw)
		require.NoError(t, err, "%s %v by gocql", typ, want)
		require.True(t, equal(want, got), "%s: sent %v, came back by gocql as %v", typ, want, got)

		cells, err := qosproxy.Scan[scanned[[]byte]](raw)
		require.NoError(t, err, typ)
		rows, err = qosproxy.Scan[scanned[T]](ask(qosproxy.CQL(cells[0].K), false))
		require.NoError(t, err, "%s %v as bytes", typ, want)
		require.True(t, equal(want, rows[0].K), "%s: sent %v as bytes, came back as %v", typ, want, rows[0].K)
	}}
}

// by returns a driver that lets gocql decode into a D and converts the D to a T.
func by[D, T any](convert func(D) T) func(qosproxy.Result) (T, error) {
	return func(r qosproxy.Result) (T, error) {
		rows, err := cql.Scan[scanned[D]](r)
		if err != nil {
			var none T
			return none, err
		}
		return convert(rows[0].K), nil
	}
}

type address16 struct {
	Street *string `cql:"street"`
	Zip    *int    `cql:"Zip"`
}

type pair struct {
	Number int
	Name   string
}

var (
	// Numbers near powers of two are where the encoding grows by a byte.
	bigs = rapid.Custom(func(t *rapid.T) *big.Int {
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "edge") {
			n = new(big.Int).Lsh(big.NewInt(1), uint(8*rapid.IntRange(1, 9).Draw(t, "length")-rapid.IntRange(0, 1).Draw(t, "sign")))
			n.Add(n, big.NewInt(int64(rapid.IntRange(-1, 1).Draw(t, "beside"))))
		}
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		return n
	})
	decimals = rapid.Custom(func(t *rapid.T) qosproxy.Decimal {
		return qosproxy.Decimal{Unscaled: bigs.Draw(t, "unscaled"), Scale: rapid.Int32Range(-50, 50).Draw(t, "scale")}
	})
	ids = rapid.Custom(func(t *rapid.T) [16]byte {
		return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
	})
	timeIDs = rapid.Map(ids, func(id [16]byte) [16]byte {
		id[6], id[8] = id[6]&0x0f|0x10, id[8]&0x3f|0x80
		return id
	})
	addrs = rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "v4") {
			return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")))
		}
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")))
	})
	moments = rapid.Map(rapid.Int64Range(-1<<40, 1<<45), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
	dates   = rapid.Map(rapid.Int32Range(-700_000, 2_900_000), func(d int32) time.Time { return time.Unix(int64(d)*86400, 0).UTC() })
	clocks  = rapid.Map(rapid.Int64Range(0, int64(24*time.Hour)-1), func(n int64) time.Duration { return time.Duration(n) })
	words   = rapid.StringN(1, 20, 40)
)

func bigEqual(a, b *big.Int) bool { return a.Cmp(b) == 0 }

func decimalEqual(a, b qosproxy.Decimal) bool {
	return a.Unscaled.Cmp(b.Unscaled) == 0 && a.Scale == b.Scale
}

func bits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// anys returns elements as the constructors of collections expect them.
func anys[T any](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// sorted draws distinct elements in Cassandra's order.
func sorted(t *rapid.T) []int64 {
	s := rapid.SliceOfNDistinct(rapid.Int64(), 1, 8, rapid.ID).Draw(t, "elements")
	slices.Sort(s)
	return s
}

// roundTrips cover every type that a partition key may have.
var roundTrips = []roundTrip{
	trip("ascii", rapid.StringMatching(`[ -~]{1,20}`), nil, nil, nil),
	trip("text", words, nil, nil, nil),
	trip("bigint", rapid.Int64(), nil, nil, nil),
	trip("int", rapid.Int32(), nil, nil, nil),
	trip("smallint", rapid.Int16(), nil, nil, nil),
	trip("tinyint", rapid.Int8(), nil, nil, nil),
	trip("varint", bigs, nil, bigEqual, nil),
	trip("decimal", decimals, nil, decimalEqual, by(func(d inf.Dec) qosproxy.Decimal {
		return qosproxy.Decimal{Unscaled: d.UnscaledBig(), Scale: int32(d.Scale())}
	})),
	trip("double", rapid.Float64(), nil, bits, nil),
	trip("float", rapid.Float32(), nil, nil, nil),
	trip("boolean", rapid.Bool(), nil, nil, nil),
	trip("blob", rapid.SliceOfN(rapid.Byte(), 1, 40), nil, bytes.Equal, nil),
	trip("uuid", ids, nil, nil, by(func(id gocql.UUID) [16]byte { return id })),
	trip("timeuuid", timeIDs, nil, nil, by(func(id gocql.UUID) [16]byte { return id })),
	trip("timestamp", moments, nil, time.Time.Equal, nil),
	trip("date", dates, func(d time.Time) any { return qosproxy.Date(d) }, time.Time.Equal, nil),
	trip("time", clocks, func(d time.Duration) any { return qosproxy.TimeOfDay(d) }, nil, nil),
	trip("inet", addrs, nil, func(a, b netip.Addr) bool { return a.Unmap() == b.Unmap() }, by(func(ip net.IP) netip.Addr {
		addr, _ := netip.AddrFromSlice(ip)
		return addr
	})),
	trip("frozen<list<text>>", rapid.SliceOfN(words, 1, 5), func(v []string) any { return qosproxy.List(anys(v)...) }, nil, nil),
	trip("frozen<set<bigint>>", rapid.Custom(sorted), func(v []int64) any {
		mixed := slices.Clone(v)
		slices.Reverse(mixed)
		return qosproxy.Set(anys(mixed)...)
	}, nil, nil),
	trip("frozen<map<text, bigint>>", rapid.MapOfN(words, rapid.Int64(), 1, 5), func(v map[string]int64) any { return qosproxy.Map(v) }, nil, nil),
	trip("frozen<map<int, frozen<list<int>>>>", rapid.MapOfN(rapid.Int32(), rapid.SliceOfN(rapid.Int32(), 1, 3), 1, 3),
		func(v map[int32][]int32) any {
			values := map[int32]qosproxy.Value{}
			for k, list := range v {
				values[k] = qosproxy.List(anys(list)...)
			}
			return qosproxy.Map(values)
		}, nil, nil),
	trip("frozen<tuple<int, text>>", rapid.Custom(func(t *rapid.T) pair {
		return pair{int(rapid.Int32().Draw(t, "number")), words.Draw(t, "name")}
	}), func(p pair) any { return qosproxy.Tuple(p.Number, p.Name) }, nil, nil),
	trip("frozen<address>", rapid.Custom(func(t *rapid.T) address16 {
		return address16{rapid.Ptr(words, true).Draw(t, "street"), rapid.Ptr(rapid.IntRange(-9, 99999), true).Draw(t, "zip")}
	}), func(a address16) any { return qosproxy.UDT(a.Street, a.Zip) }, nil, nil),
	trip("vector<float, 3>", rapid.SliceOfN(rapid.Float32(), 3, 3), nil, nil, nil),
	trip("vector<text, 2>", rapid.SliceOfN(words, 2, 2), func(v []string) any { return qosproxy.Vector(anys(v)...) }, nil, nil),
	trip("vector<smallint, 2>", rapid.SliceOfN(rapid.Int16(), 2, 2), func(v []int16) any { return qosproxy.Vector(anys(v)...) }, nil, nil),
}

func TestValuesRoundTrip(t *testing.T) {
	s := server.New(server.Config{GRPC: server.Listener{Address: "127.0.0.1:0"}}, server.Deps{Lookup: echo{}})
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	client := dial(t, s.Addr("grpc").String(), qosproxy.Options{})
	for _, c := range roundTrips {
		t.Run(c.cql, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c.check(t, func(value any, raw bool) qosproxy.Result {
					answer, err := client.Get(context.Background(), qosproxy.Lookup{Table: "ks." + c.cql, Keys: []qosproxy.Key{qosproxy.NewKey(value)}, CQL: raw})
					require.NoError(t, err, "%s %v", c.cql, value)
					return answer.At(0)
				})
			})
		})
	}
}

// Every kind of type has a TypeInfo of gocql. Kinds that no key can have are read from
// shop.others.
func TestEveryKindHasATypeInfo(t *testing.T) {
	for number, name := range qosproxyv1.TypeKind_name {
		typ := &qosproxyv1.Type{Name: "x", Kind: qosproxyv1.TypeKind(number)}
		switch typ.GetKind() {
		case qosproxyv1.TypeKind_TYPE_KIND_LIST, qosproxyv1.TypeKind_TYPE_KIND_SET, qosproxyv1.TypeKind_TYPE_KIND_VECTOR, qosproxyv1.TypeKind_TYPE_KIND_TUPLE:
			typ.Elements = []*qosproxyv1.Type{{Kind: qosproxyv1.TypeKind_TYPE_KIND_INT}}
			typ.Dimension = 1
		case qosproxyv1.TypeKind_TYPE_KIND_MAP:
			typ.Elements = []*qosproxyv1.Type{{Kind: qosproxyv1.TypeKind_TYPE_KIND_INT}, {Kind: qosproxyv1.TypeKind_TYPE_KIND_INT}}
		case qosproxyv1.TypeKind_TYPE_KIND_UDT:
			typ.Elements, typ.FieldNames = []*qosproxyv1.Type{{Kind: qosproxyv1.TypeKind_TYPE_KIND_INT}}, []string{"a"}
		default:
		}
		_, err := cql.TypeInfo(typ)
		require.NoError(t, err, name)
	}
	_, err := cql.TypeInfo(&qosproxyv1.Type{Name: "novel", Kind: 99})
	require.ErrorContains(t, err, "novel is newer")
}
