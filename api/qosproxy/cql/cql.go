// Package cql decides which Go values the raw cells of a lookup with Lookup.CQL become.
// It decodes them with gocql, the driver of Apache Cassandra, so that a program that
// used gocql keeps its types and Unmarshalers.
package cql

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// protocol is the version of the native protocol in which cells are serialized.
// Versions from 4 on do not differ in that.
const protocol = 4

// Scan returns the rows of a key as values of the struct T, like qosproxy.Scan, but
// decodes each field with gocql.Unmarshal.
func Scan[T any](r qosproxy.Result) ([]T, error) { return qosproxy.ScanWith[T](r, Unmarshal) }

// Unmarshal stores a cell in the variable that dst points to, as gocql.Unmarshal does
// for the type of its column. It is a qosproxy.Decoder.
func Unmarshal(t *qosproxyv1.Type, cell *qosproxyv1.Value, dst any) error {
	info, err := TypeInfo(t)
	if err != nil {
		return err
	}
	switch kind := cell.GetKind().(type) {
	case *qosproxyv1.Value_Null:
		return gocql.Unmarshal(info, nil, dst)
	case *qosproxyv1.Value_Cql:
		if kind.Cql == nil { // Zero bytes are a value and not null.
			return gocql.Unmarshal(info, []byte{}, dst)
		}
		return gocql.Unmarshal(info, kind.Cql, dst)
	default:
		return errors.New("the cell is decoded already: make the lookup with CQL, or use Scan of the package qosproxy")
	}
}

// TypeInfo returns gocql's description of t, the type of a column of an answer. A
// custom type is treated as a blob.
func TypeInfo(t *qosproxyv1.Type) (info gocql.TypeInfo, err error) {
	name, err := javaName(t)
	if err != nil {
		return nil, err
	}
	defer func() { // NewNativeType panics instead of returning an error.
		if r := recover(); r != nil {
			err = fmt.Errorf("gocql does not know the type %s: %v", t.GetName(), r)
		}
	}()
	return gocql.NewNativeType(protocol, gocql.TypeCustom, name), nil
}

// prefix is the Java package of Cassandra's type classes.
const prefix = "org.apache.cassandra.db.marshal."

// classes are the names of the type classes, without parameters.
var classes = map[qosproxyv1.TypeKind]string{
	qosproxyv1.TypeKind_TYPE_KIND_UNSPECIFIED: "BytesType",
	qosproxyv1.TypeKind_TYPE_KIND_ASCII:       "AsciiType",
	qosproxyv1.TypeKind_TYPE_KIND_BIGINT:      "LongType",
	qosproxyv1.TypeKind_TYPE_KIND_BLOB:        "BytesType",
	qosproxyv1.TypeKind_TYPE_KIND_BOOLEAN:     "BooleanType",
	qosproxyv1.TypeKind_TYPE_KIND_COUNTER:     "CounterColumnType",
	qosproxyv1.TypeKind_TYPE_KIND_CUSTOM:      "BytesType",
	qosproxyv1.TypeKind_TYPE_KIND_DATE:        "SimpleDateType",
	qosproxyv1.TypeKind_TYPE_KIND_DECIMAL:     "DecimalType",
	qosproxyv1.TypeKind_TYPE_KIND_DOUBLE:      "DoubleType",
	qosproxyv1.TypeKind_TYPE_KIND_DURATION:    "DurationType",
	qosproxyv1.TypeKind_TYPE_KIND_EMPTY:       "BytesType",
	qosproxyv1.TypeKind_TYPE_KIND_FLOAT:       "FloatType",
	qosproxyv1.TypeKind_TYPE_KIND_INET:        "InetAddressType",
	qosproxyv1.TypeKind_TYPE_KIND_INT:         "Int32Type",
	qosproxyv1.TypeKind_TYPE_KIND_SMALLINT:    "ShortType",
	qosproxyv1.TypeKind_TYPE_KIND_TEXT:        "UTF8Type",
	qosproxyv1.TypeKind_TYPE_KIND_TIME:        "TimeType",
	qosproxyv1.TypeKind_TYPE_KIND_TIMESTAMP:   "TimestampType",
	qosproxyv1.TypeKind_TYPE_KIND_TIMEUUID:    "TimeUUIDType",
	qosproxyv1.TypeKind_TYPE_KIND_TINYINT:     "ByteType",
	qosproxyv1.TypeKind_TYPE_KIND_UUID:        "UUIDType",
	qosproxyv1.TypeKind_TYPE_KIND_VARINT:      "IntegerType",
	qosproxyv1.TypeKind_TYPE_KIND_LIST:        "ListType",
	qosproxyv1.TypeKind_TYPE_KIND_SET:         "SetType",
	qosproxyv1.TypeKind_TYPE_KIND_MAP:         "MapType",
	qosproxyv1.TypeKind_TYPE_KIND_TUPLE:       "TupleType",
	qosproxyv1.TypeKind_TYPE_KIND_UDT:         "UserType",
	qosproxyv1.TypeKind_TYPE_KIND_VECTOR:      "VectorType",
}

// javaName returns the Java class name by which Cassandra describes a type to drivers.
// It is the only form in which gocql accepts all types: collections cannot be made in
// any other way.
func javaName(t *qosproxyv1.Type) (string, error) {
	class, ok := classes[t.GetKind()]
	if !ok {
		return "", fmt.Errorf("the type %s is newer than this package", t.GetName())
	}
	var parameters []string
	if t.GetKind() == qosproxyv1.TypeKind_TYPE_KIND_UDT {
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(t.GetName(), "frozen<"), ">"), `"`)
		parameters = []string{"keyspace", hex.EncodeToString([]byte(name))}
	}
	for i, e := range t.GetElements() {
		element, err := javaName(e)
		if err != nil {
			return "", err
		}
		if t.GetKind() == qosproxyv1.TypeKind_TYPE_KIND_UDT && i < len(t.GetFieldNames()) {
			element = hex.EncodeToString([]byte(t.GetFieldNames()[i])) + ":" + element
		}
		parameters = append(parameters, element)
	}
	if t.GetKind() == qosproxyv1.TypeKind_TYPE_KIND_VECTOR {
		parameters = append(parameters, strconv.Itoa(int(t.GetDimension())))
	}
	if len(parameters) == 0 {
		return prefix + class, nil
	}
	return prefix + class + "(" + strings.Join(parameters, ",") + ")", nil
}
