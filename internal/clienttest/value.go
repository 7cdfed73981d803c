package clienttest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Value returns a value of type t as JSON with one member, which is named after its kind:
// {"bigint": "9007199254740993"}. Numbers are strings, because not every language reads JSON
// numbers exactly. Floats are written as their bits, bytes in hexadecimal, null as null. Elements
// of sets are sorted by their JSON, because not every language keeps Cassandra's order. Value
// panics for a kind that no column has.
func Value(t *qosproxyv1.Type, v *qosproxyv1.Value) any {
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Null:
		return nil
	case *qosproxyv1.Value_Text:
		return member("text", kind.Text)
	case *qosproxyv1.Value_Int:
		return member("int", number(int64(kind.Int)))
	case *qosproxyv1.Value_Bigint:
		return member("bigint", number(kind.Bigint))
	case *qosproxyv1.Value_Varint:
		return member("varint", signed(kind.Varint))
	case *qosproxyv1.Value_Decimal:
		return member("decimal", []any{signed(kind.Decimal.GetUnscaled()), number(int64(kind.Decimal.GetScale()))})
	case *qosproxyv1.Value_Float:
		return floatValue(kind.Float)
	case *qosproxyv1.Value_Double:
		return member("double", fmt.Sprintf("%016x", math.Float64bits(kind.Double)))
	case *qosproxyv1.Value_Boolean:
		return member("boolean", kind.Boolean)
	case *qosproxyv1.Value_Blob:
		return member("blob", hex.EncodeToString(kind.Blob))
	case *qosproxyv1.Value_Uuid:
		id := hex.EncodeToString(kind.Uuid)
		return member("uuid", id[:8]+"-"+id[8:12]+"-"+id[12:16]+"-"+id[16:20]+"-"+id[20:])
	case *qosproxyv1.Value_Inet:
		return member("inet", hex.EncodeToString(kind.Inet))
	case *qosproxyv1.Value_Timestamp:
		return member("timestamp", number(kind.Timestamp))
	case *qosproxyv1.Value_Date:
		return member("date", number(int64(kind.Date)))
	case *qosproxyv1.Value_Time:
		return member("time", number(kind.Time))
	case *qosproxyv1.Value_Duration:
		d := kind.Duration
		return member("duration", []any{number(int64(d.GetMonths())), number(int64(d.GetDays())), number(d.GetNanoseconds())})
	case *qosproxyv1.Value_Empty:
		return member("empty", true)
	default:
		return nested(t, v)
	}
}

func nested(t *qosproxyv1.Type, v *qosproxyv1.Value) any {
	all := func(elements []*qosproxyv1.Value) []any {
		out := make([]any, len(elements))
		for i, e := range elements {
			of := t.GetElements()[0]
			if t.GetKind() == qosproxyv1.TypeKind_TYPE_KIND_TUPLE {
				of = t.GetElements()[i]
			}
			out[i] = Value(of, e)
		}
		return out
	}
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_List:
		return member("list", all(kind.List.GetElements()))
	case *qosproxyv1.Value_Set:
		return Sorted(member("set", all(kind.Set.GetElements())))
	case *qosproxyv1.Value_Vector:
		return member("vector", all(kind.Vector.GetElements()))
	case *qosproxyv1.Value_Tuple:
		return member("tuple", all(kind.Tuple.GetElements()))
	case *qosproxyv1.Value_FloatVector:
		out := make([]any, len(kind.FloatVector.GetElements()))
		for i, f := range kind.FloatVector.GetElements() {
			out[i] = floatValue(f)
		}
		return member("vector", out)
	case *qosproxyv1.Value_Map:
		out := make([]any, len(kind.Map.GetEntries()))
		for i, e := range kind.Map.GetEntries() {
			out[i] = []any{Value(t.GetElements()[0], e.GetKey()), Value(t.GetElements()[1], e.GetValue())}
		}
		return member("map", out)
	case *qosproxyv1.Value_Udt:
		out := make([]any, len(kind.Udt.GetFields()))
		for i, f := range kind.Udt.GetFields() {
			out[i] = []any{t.GetFieldNames()[i], Value(t.GetElements()[i], f)}
		}
		return member("udt", out)
	default:
		panic(fmt.Sprintf("clienttest: a %s has the kind %T", t.GetName(), kind))
	}
}

func member(name string, value any) map[string]any { return map[string]any{name: value} }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func floatValue(f float32) any { return member("float", fmt.Sprintf("%08x", math.Float32bits(f))) }

// signed returns the number that b holds in two's complement.
func signed(b []byte) string {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n.String()
}

// Sorted returns v with the elements of each set sorted by their own JSON.
func Sorted(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Sorted(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = Sorted(e)
			if elements, ok := out[name].([]any); ok && name == "set" {
				slices.SortFunc(elements, func(a, b any) int { return slices.Compare(encoded(a), encoded(b)) })
			}
		}
		return out
	default:
		return v
	}
}

// encoded returns v as JSON; it panics if v cannot be encoded.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
