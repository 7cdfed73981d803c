package qosproxy

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"time"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// errCQL refuses cells in Cassandra's own bytes.
var errCQL = errors.New("the cell is undecoded (Lookup.CQL); use Scan of the package cql, or take it as []byte")

// decode stores a cell in the variable that dst points to. It is a Decoder.
func decode(t *qosproxyv1.Type, cell *qosproxyv1.Value, dst any) error {
	return store(t, cell, reflect.ValueOf(dst).Elem())
}

// The Go types that stand for one CQL type.
var (
	valueType    = reflect.TypeFor[*qosproxyv1.Value]()
	bigIntType   = reflect.TypeFor[*big.Int]()
	decimalType  = reflect.TypeFor[Decimal]()
	spanType     = reflect.TypeFor[Duration]()
	momentType   = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	addrType     = reflect.TypeFor[netip.Addr]()
	ipType       = reflect.TypeFor[net.IP]()
)

// store stores a value in dst, which must be settable.
func store(t *qosproxyv1.Type, v *qosproxyv1.Value, dst reflect.Value) error {
	if dst.Type() == valueType {
		dst.Set(reflect.ValueOf(v))
		return nil
	}
	switch v.GetKind().(type) {
	case nil, *qosproxyv1.Value_Null:
		dst.SetZero()
		return nil
	}
	if dst.Kind() == reflect.Pointer && dst.Type() != bigIntType {
		to := reflect.New(dst.Type().Elem())
		if err := store(t, v, to.Elem()); err != nil {
			return err
		}
		dst.Set(to)
		return nil
	}
	if dst.Kind() == reflect.Interface && dst.NumMethod() == 0 {
		natural, err := natural(t, v)
		if err == nil {
			dst.Set(reflect.ValueOf(natural))
		}
		return err
	}
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Empty:
		dst.SetZero()
		return nil
	case *qosproxyv1.Value_List, *qosproxyv1.Value_Set, *qosproxyv1.Value_Vector, *qosproxyv1.Value_FloatVector:
		return storeElements(t, v, dst)
	case *qosproxyv1.Value_Tuple:
		return storeTuple(t, kind.Tuple.GetElements(), dst)
	case *qosproxyv1.Value_Map:
		return storeMap(t, kind.Map.GetEntries(), dst)
	case *qosproxyv1.Value_Udt:
		return storeFields(t, kind.Udt.GetFields(), dst)
	default:
		return storeScalar(t, v, dst)
	}
}

// mismatch is the error of a value that does not fit dst.
func mismatch(t *qosproxyv1.Type, dst reflect.Value) error {
	return fmt.Errorf("a %s does not go into %s", t.GetName(), dst.Type())
}

// storeScalar stores a value without elements.
func storeScalar(t *qosproxyv1.Type, v *qosproxyv1.Value, dst reflect.Value) error {
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Text:
		return storeText(t, kind.Text, []byte(kind.Text), dst)
	case *qosproxyv1.Value_Boolean:
		if dst.Kind() == reflect.Bool {
			dst.SetBool(kind.Boolean)
			return nil
		}
	case *qosproxyv1.Value_Float:
		if dst.CanFloat() {
			dst.SetFloat(float64(kind.Float))
			return nil
		}
	case *qosproxyv1.Value_Double:
		if dst.Kind() == reflect.Float64 {
			dst.SetFloat(kind.Double)
			return nil
		}
	case *qosproxyv1.Value_Int:
		return storeInt64(t, int64(kind.Int), dst)
	case *qosproxyv1.Value_Bigint:
		return storeInt64(t, kind.Bigint, dst)
	case *qosproxyv1.Value_Varint:
		return storeInteger(t, bigInt(kind.Varint), dst)
	case *qosproxyv1.Value_Decimal:
		if dst.Kind() == reflect.String {
			dst.SetString(decimalOf(kind.Decimal).String())
			return nil
		}
		return exactly(t, decimalType, decimalOf(kind.Decimal), dst)
	case *qosproxyv1.Value_Duration:
		return exactly(t, spanType, spanOf(kind.Duration), dst)
	case *qosproxyv1.Value_Blob:
		return storeBytes(t, kind.Blob, dst)
	case *qosproxyv1.Value_Custom:
		return storeBytes(t, kind.Custom, dst)
	case *qosproxyv1.Value_Cql:
		if storeBytes(t, kind.Cql, dst) != nil {
			return errCQL
		}
		return nil
	case *qosproxyv1.Value_Uuid:
		return storeUUID(t, kind.Uuid, dst)
	case *qosproxyv1.Value_Inet:
		return storeInet(t, kind.Inet, dst)
	default:
		return storeMoment(t, v, dst)
	}
	return mismatch(t, dst)
}

// exactly stores a value in a destination of the type own, or of a type that own
// converts to.
func exactly(t *qosproxyv1.Type, own reflect.Type, v any, dst reflect.Value) error {
	if !own.ConvertibleTo(dst.Type()) {
		return mismatch(t, dst)
	}
	dst.Set(reflect.ValueOf(v).Convert(dst.Type()))
	return nil
}

func storeText(t *qosproxyv1.Type, text string, raw []byte, dst reflect.Value) error {
	if dst.Kind() == reflect.String {
		dst.SetString(text)
		return nil
	}
	return storeBytes(t, raw, dst)
}

func storeBytes(t *qosproxyv1.Type, b []byte, dst reflect.Value) error {
	if dst.Kind() != reflect.Slice || dst.Type().Elem().Kind() != reflect.Uint8 {
		return mismatch(t, dst)
	}
	if b == nil {
		b = []byte{}
	}
	dst.SetBytes(b)
	return nil
}

func storeInt64(t *qosproxyv1.Type, n int64, dst reflect.Value) error {
	if dst.CanInt() && !dst.OverflowInt(n) {
		dst.SetInt(n)
		return nil
	}
	return storeInteger(t, big.NewInt(n), dst)
}

func storeInteger(t *qosproxyv1.Type, n *big.Int, dst reflect.Value) error {
	switch {
	case dst.Type() == bigIntType:
		dst.Set(reflect.ValueOf(n))
		return nil
	case dst.Type() == bigIntType.Elem():
		dst.Addr().Interface().(*big.Int).Set(n)
		return nil
	case dst.CanInt() && n.IsInt64() && !dst.OverflowInt(n.Int64()):
		dst.SetInt(n.Int64())
		return nil
	case dst.CanUint() && n.IsUint64() && !dst.OverflowUint(n.Uint64()):
		dst.SetUint(n.Uint64())
		return nil
	case dst.CanInt() || dst.CanUint():
		return fmt.Errorf("the %s is out of the range of %s", t.GetName(), dst.Type())
	}
	return mismatch(t, dst)
}

func storeUUID(t *qosproxyv1.Type, id []byte, dst reflect.Value) error {
	if dst.Kind() == reflect.Array && dst.Len() == len(id) && dst.Type().Elem().Kind() == reflect.Uint8 {
		for i, b := range id {
			dst.Index(i).SetUint(uint64(b))
		}
		return nil
	}
	if dst.Kind() == reflect.String && len(id) == 16 {
		h := hex.EncodeToString(id)
		dst.SetString(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
		return nil
	}
	return storeBytes(t, id, dst)
}

func storeInet(t *qosproxyv1.Type, raw []byte, dst reflect.Value) error {
	addr, ok := netip.AddrFromSlice(raw)
	switch {
	case !ok:
		return fmt.Errorf("an inet of %d bytes", len(raw))
	case dst.Type() == ipType:
		dst.Set(reflect.ValueOf(net.IP(raw)))
		return nil
	case dst.Kind() == reflect.String:
		dst.SetString(addr.String())
		return nil
	default:
		return exactly(t, addrType, addr, dst)
	}
}

// storeMoment stores a timestamp, date or time, as a type of package time or as its
// number.
func storeMoment(t *qosproxyv1.Type, v *qosproxyv1.Value, dst reflect.Value) error {
	var number int64
	var moment time.Time
	switch kind := v.GetKind().(type) {
	case *qosproxyv1.Value_Timestamp:
		number, moment = kind.Timestamp, time.UnixMilli(kind.Timestamp).UTC()
	case *qosproxyv1.Value_Date:
		number, moment = int64(kind.Date), dayOf(kind.Date)
	case *qosproxyv1.Value_Time:
		number = kind.Time
	default:
		return fmt.Errorf("a %s is of a kind that this package does not know; take it as *qosproxyv1.Value", t.GetName())
	}
	_, isTime := v.GetKind().(*qosproxyv1.Value_Time)
	switch {
	case dst.CanInt() && (dst.Type() != durationType || isTime):
		return storeInt64(t, number, dst)
	case !isTime:
		return exactly(t, momentType, moment, dst)
	default:
		return mismatch(t, dst)
	}
}

func dayOf(days int32) time.Time { return time.Unix(int64(days)*int64(day/time.Second), 0).UTC() }
