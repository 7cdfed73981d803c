package cassandra

import (
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Types as they are in the metadata of a result.
func native(t gocql.Type) gocql.TypeInfo { return gocql.NewNativeType(5, t, "") }

func of(t gocql.Type, params ...any) gocql.TypeInfo {
	out, err := rawType{typ: t}.TypeInfoFromParams(5, params)
	if err != nil {
		panic(err)
	}
	return out
}

func class(name, arguments string) gocql.TypeInfo {
	out, err := rawType{typ: gocql.TypeCustom, class: name}.TypeInfoFromString(5, arguments)
	if err != nil {
		panic(err)
	}
	return out
}

func tuple(elements ...gocql.TypeInfo) gocql.TypeInfo { return of(gocql.TypeTuple, elements) }

// pointInfo is the user-defined type ks.point with the fields x and y.
func pointInfo(x, y gocql.TypeInfo) gocql.TypeInfo {
	return of(gocql.TypeUDT, "ks", "point", []gocql.UDTField{{Name: "x", Type: x}, {Name: "y", Type: y}})
}

func pointType(string, string) (*cqltype.Type, error) {
	return &cqltype.Type{
		Kind: cqltype.UDT, Keyspace: "ks", Name: "point", Fields: []string{"x", "y"}, Elems: []*cqltype.Type{{Kind: cqltype.Int}, textType},
	}, nil
}

// stale lists, for a type of the snapshot, which types of results it refuses and which it accepts.
func TestStatementRefusesTypesThatHaveChanged(t *testing.T) {
	ints, floats, texts := native(gocql.TypeInt), native(gocql.TypeFloat), native(gocql.TypeVarchar)
	for _, test := range []struct {
		snapshot      string
		same, changed []gocql.TypeInfo
	}{
		{"text", []gocql.TypeInfo{texts}, []gocql.TypeInfo{ints, native(gocql.TypeAscii), of(gocql.TypeList, texts), class("EmptyType", "")}},
		{"list<int>", []gocql.TypeInfo{of(gocql.TypeList, ints)}, []gocql.TypeInfo{of(gocql.TypeList, floats), of(gocql.TypeSet, ints), ints}},
		{"set<text>", []gocql.TypeInfo{of(gocql.TypeSet, texts)}, []gocql.TypeInfo{of(gocql.TypeSet, native(gocql.TypeBlob))}},
		{"map<int, frozen<map<int, frozen<list<int>>>>>",
			[]gocql.TypeInfo{of(gocql.TypeMap, ints, of(gocql.TypeMap, ints, of(gocql.TypeList, ints)))},
			[]gocql.TypeInfo{of(gocql.TypeMap, ints, of(gocql.TypeMap, ints, of(gocql.TypeList, floats))), of(gocql.TypeMap, texts, of(gocql.TypeMap, ints, of(gocql.TypeList, ints)))}},
		{"tuple<int, text>", []gocql.TypeInfo{tuple(ints, texts)}, []gocql.TypeInfo{tuple(texts, ints), tuple(ints), tuple(ints, texts, texts), of(gocql.TypeList, ints)}},
		{"frozen<point>", []gocql.TypeInfo{pointInfo(ints, texts)}, []gocql.TypeInfo{pointInfo(floats, texts), tuple(ints, texts), pointInfo(texts, ints)}},
		{"list<frozen<point>>", []gocql.TypeInfo{of(gocql.TypeList, pointInfo(ints, texts))}, []gocql.TypeInfo{of(gocql.TypeList, pointInfo(ints, ints))}},
		{"vector<float, 3>", []gocql.TypeInfo{class("VectorType", "org.apache.cassandra.db.marshal.FloatType , 3")},
			[]gocql.TypeInfo{class("VectorType", "org.apache.cassandra.db.marshal.FloatType , 4"), class("VectorType", "org.apache.cassandra.db.marshal.Int32Type , 3"), class("EmptyType", "")}},
		{"vector<frozen<point>, 2>", []gocql.TypeInfo{class("VectorType", "UserType(ks,706f696e74,78:Int32Type,79:UTF8Type),2")},
			[]gocql.TypeInfo{class("VectorType", "UserType(ks,706f696e74,78:FloatType,79:UTF8Type),2")}},
		{"duration", []gocql.TypeInfo{native(gocql.TypeDuration), class("DurationType", "")}, []gocql.TypeInfo{ints, class("VectorType", "Int32Type,2")}},
		{"'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.Int32Type)'",
			[]gocql.TypeInfo{class("CompositeType", "org.apache.cassandra.db.marshal.Int32Type")}, []gocql.TypeInfo{class("CompositeType", "UTF8Type"), ints}},
		{"int", []gocql.TypeInfo{ints, class("ReversedType", "Int32Type")}, []gocql.TypeInfo{native(0x7777), class("VectorType", "")}},
		{"list<int>", nil, []gocql.TypeInfo{of(gocql.TypeList, native(0x7777)), of(gocql.TypeList, class("VectorType", ""))}},
		{"tuple<int>", nil, []gocql.TypeInfo{tuple(native(0x7777)), pointInfo(native(0x7777), ints)}},
	} {
		typ, err := cqltype.Parse(test.snapshot, pointType, "ks")
		require.NoError(t, err)
		table := schema.NewTable("ks", "t", "id", []schema.Column{{Name: "id", Type: textType}, {Name: "v", Type: typ, Kind: schema.Regular}})
		s := newSelection(ask(table, "v"))
		for _, same := range test.same {
			require.NoError(t, s.check(s.columns, []gocql.ColumnInfo{{TypeInfo: texts}, {TypeInfo: same}}), "%s: %v", test.snapshot, same)
		}
		for _, changed := range test.changed {
			assert.ErrorIs(t, s.check(s.columns, []gocql.ColumnInfo{{TypeInfo: texts}, {TypeInfo: changed}}), errStale, "%s: %v", test.snapshot, changed)
		}
		assert.ErrorIs(t, s.check(s.columns, []gocql.ColumnInfo{{TypeInfo: texts}}), errStale)
	}
}
