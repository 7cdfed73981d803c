package qosproxy

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Value is a value of a CQL type, for keys. These functions make values of each
// type:
//
//	ascii, text, varchar     Text      (or a string)
//	tinyint … bigint         BigInt    (or any Go integer: the proxy fits it into the type)
//	varint                   VarInt    (or a *big.Int)
//	decimal                  a Decimal
//	float, double            Float, Double (or a float32, float64)
//	boolean                  Boolean   (or a bool)
//	blob                     Blob      (or a []byte)
//	uuid, timeuuid           UUID      (or any array of 16 bytes, such as those of google/uuid and gocql)
//	timestamp                Timestamp (or a time.Time)
//	date                     Date
//	time                     TimeOfDay
//	inet                     Inet      (or a netip.Addr or net.IP)
//	duration                 a Duration; no key holds one
//	list, set, map           List, Set, Map
//	tuple, a user type       Tuple, UDT
//	vector                   Vector    (or a []float32, of floats)
//	any, as Cassandra's own bytes: CQL; and an Empty
//
// A parameter of type any is a Value, or a Go value that ValueOf converts. The zero
// Value is refused.
type Value struct {
	proto *qosproxyv1.Value
	err   error
}

// Proto returns the value as the generated client expects it, or the error of ValueOf.
func (v Value) Proto() (*qosproxyv1.Value, error) { return v.proto, v.err }

// errAmbiguous refuses a time.Duration, which may mean a time of day or a span.
var errAmbiguous = errors.New("a time.Duration is not of one CQL type; use TimeOfDay for time, or a Duration")

// ValueOf converts a Go value to a Value by the table at Value. A nil becomes null. A
// pointer stands for what it points to, and a named type for its underlying type. For
// any other type the returned Value has an error, and a lookup that uses it fails.
func ValueOf(v any) Value {
	switch v := v.(type) {
	case nil:
		return Null()
	case Value:
		return v
	case string:
		return Text(v)
	case time.Time:
		return Timestamp(v)
	case time.Duration:
		return Value{err: errAmbiguous}
	case netip.Addr:
		return Inet(v)
	case net.IP:
		addr, _ := netip.AddrFromSlice(v)
		return Inet(addr.Unmap())
	case *big.Int:
		return VarInt(v)
	case Decimal:
		return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Decimal{
			Decimal: &qosproxyv1.DecimalValue{Unscaled: twosComplement(v.Unscaled), Scale: v.Scale}}}}
	case Duration:
		return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Duration{
			Duration: &qosproxyv1.DurationValue{Months: v.Months, Days: v.Days, Nanoseconds: v.Nanoseconds}}}}
	case Empty:
		return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Empty{Empty: true}}}
	case []float32:
		return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_FloatVector{FloatVector: &qosproxyv1.FloatVector{Elements: v}}}}
	case *qosproxyv1.Value:
		return Value{proto: v}
	default:
		return reflected(reflect.ValueOf(v))
	}
}

var bytesType = reflect.TypeFor[[]byte]()

// reflected converts pointers, and numbers and bytes of any named type.
func reflected(v reflect.Value) Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return Null()
		}
		return ValueOf(v.Elem().Interface())
	case reflect.String:
		return Text(v.String())
	case reflect.Bool:
		return Boolean(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return BigInt(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > math.MaxInt64 {
			return VarInt(new(big.Int).SetUint64(v.Uint()))
		}
		return BigInt(int64(v.Uint()))
	case reflect.Float32:
		return Float(float32(v.Float()))
	case reflect.Float64:
		return Double(v.Float())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return Blob(v.Convert(bytesType).Interface().([]byte))
		}
	case reflect.Array:
		if v.Len() == 16 && v.Type().Elem().Kind() == reflect.Uint8 {
			var id [16]byte
			reflect.Copy(reflect.ValueOf(&id).Elem(), v)
			return UUID(id)
		}
	default:
	}
	return Value{err: fmt.Errorf("a %s is not of one CQL type; see Value for what is", v.Type())}
}

// Null is null, of any type. A key may contain it only inside a tuple or user type.
func Null() Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Null{Null: structpb.NullValue_NULL_VALUE}}}
}

// Text is an ascii, text or varchar.
func Text(s string) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Text{Text: s}}}
}

// BigInt is a bigint, or any smaller integer type that n fits into.
func BigInt(n int64) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Bigint{Bigint: n}}}
}

// VarInt is a varint; nil is null.
func VarInt(n *big.Int) Value {
	if n == nil {
		return Null()
	}
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Varint{Varint: twosComplement(n)}}}
}

// Double is a double.
func Double(f float64) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Double{Double: f}}}
}

// Float is a float.
func Float(f float32) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Float{Float: f}}}
}

// Boolean is a boolean.
func Boolean(b bool) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Boolean{Boolean: b}}}
}

// Blob is a blob; nil is an empty one.
func Blob(b []byte) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Blob{Blob: b}}}
}

// UUID is a uuid or timeuuid.
func UUID(id [16]byte) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Uuid{Uuid: id[:]}}}
}

// Timestamp is a timestamp. It has a resolution of milliseconds; the rest of t is cut
// off.
func Timestamp(t time.Time) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Timestamp{Timestamp: t.UnixMilli()}}}
}

const day = 24 * time.Hour

// Date is a date: the date of t in its own time zone.
func Date(t time.Time) Value {
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	days := midnight.Unix() / int64(day/time.Second)
	if int64(int32(days)) != days {
		return Value{err: fmt.Errorf("the year %d is beyond the dates of CQL", t.Year())}
	}
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Date{Date: int32(days)}}}
}

// TimeOfDay is a time: the span since midnight, less than 24 h.
func TimeOfDay(sinceMidnight time.Duration) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Time{Time: int64(sinceMidnight)}}}
}

// Inet is an inet. An IPv4 address and the same address mapped to IPv6 are different
// values.
func Inet(addr netip.Addr) Value {
	if !addr.IsValid() || addr.Zone() != "" {
		return Value{err: fmt.Errorf("%q is not an address that an inet can hold", addr)}
	}
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Inet{Inet: addr.AsSlice()}}}
}

// CQL is a value of any type as Cassandra serializes it. It must be a whole component
// of a key and cannot be used inside another value.
func CQL(cell []byte) Value {
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: cell}}}
}

// listOf returns the elements as a message. The error is that of the first element that
// has one.
func listOf(elements []any) (*qosproxyv1.ListValue, error) {
	out := &qosproxyv1.ListValue{Elements: make([]*qosproxyv1.Value, len(elements))}
	for i, e := range elements {
		v := ValueOf(e)
		if v.err != nil {
			return nil, fmt.Errorf("element %d: %w", i, v.err)
		}
		out.Elements[i] = v.proto
	}
	return out, nil
}

// List is a list.
func List(elements ...any) Value {
	list, err := listOf(elements)
	return Value{&qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: list}}, err}
}

// Set is a set; the elements may be in any order.
func Set(elements ...any) Value {
	list, err := listOf(elements)
	return Value{&qosproxyv1.Value{Kind: &qosproxyv1.Value_Set{Set: list}}, err}
}

// Tuple is a tuple. All elements of its type must be given; some may be nil.
func Tuple(elements ...any) Value {
	list, err := listOf(elements)
	return Value{&qosproxyv1.Value{Kind: &qosproxyv1.Value_Tuple{Tuple: list}}, err}
}

// Vector is a vector; a vector of floats can also be given as a []float32.
func Vector(elements ...any) Value {
	list, err := listOf(elements)
	return Value{&qosproxyv1.Value{Kind: &qosproxyv1.Value_Vector{Vector: list}}, err}
}

// UDT is a value of a user-defined type: its fields in the order of the type. Fields at
// the end may be left out, which makes them null.
func UDT(fields ...any) Value {
	list, err := listOf(fields)
	return Value{&qosproxyv1.Value{Kind: &qosproxyv1.Value_Udt{Udt: &qosproxyv1.UdtValue{Fields: list.GetElements()}}}, err}
}

// Map is a map; the entries may be in any order.
func Map[K comparable, V any](m map[K]V) Value {
	out := &qosproxyv1.MapValue{}
	for key, value := range m {
		k, v := ValueOf(key), ValueOf(value)
		if err := errors.Join(k.err, v.err); err != nil {
			return Value{err: fmt.Errorf("an entry of a map: %w", err)}
		}
		out.Entries = append(out.Entries, &qosproxyv1.MapEntry{Key: k.proto, Value: v.proto})
	}
	return Value{proto: &qosproxyv1.Value{Kind: &qosproxyv1.Value_Map{Map: out}}}
}
