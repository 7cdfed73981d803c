package cqltype

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const marshal = "org.apache.cassandra.db.marshal."

// pointClass is the class of a user-defined type ks.point with the fields x and y.
func pointClass(x, y string) string {
	name := func(s string) string { return hex.EncodeToString([]byte(s)) }
	return marshal + "UserType(ks," + name("point") + "," + name("x") + ":" + marshal + x + "," + name("y") + ":" + marshal + y + ")"
}

func TestClassesAreTypes(t *testing.T) {
	for class, want := range map[string]string{
		marshal + "Int32Type": "int",
		"UTF8Type":            "text",
		marshal + "VectorType(" + marshal + "FloatType , 3)":                           "vector<float, 3>",
		marshal + "ListType(" + marshal + "LongType)":                                  "list<bigint>",
		marshal + "MapType(" + marshal + "UUIDType," + marshal + "SetType(ShortType))": "map<uuid, set<smallint>>",
		"TupleType(ByteType,DateType,TimestampType)":                                   "tuple<tinyint, timestamp, timestamp>",
		"ReversedType(FrozenType(ListType(TimeUUIDType)))":                             "list<timeuuid>",
		"VectorType(VectorType(DoubleType,2),4)":                                       "vector<vector<double, 2>, 4>",
		pointClass("Int32Type", "EmptyType"):                                           "point",
		marshal + "CompositeType(" + marshal + "Int32Type," + marshal + "UTF8Type)":    "'CompositeType(Int32Type,UTF8Type)'",
		"ListType(org.example.Odd(a=>UTF8Type,b(c)))":                                  "list<'org.example.Odd(a=>UTF8Type,b(c))'>",
		"org.example.Bare": "'org.example.Bare'",
	} {
		t.Run(class, func(t *testing.T) {
			got, err := ParseClass(class)
			require.NoError(t, err)
			assert.Equal(t, want, got.String())
		})
	}
	point, err := ParseClass(pointClass("Int32Type", "UTF8Type"))
	require.NoError(t, err)
	assert.Equal(t, &Type{
		Kind: UDT, Keyspace: "ks", Name: "point", Fields: []string{"x", "y"}, Elems: []*Type{{Kind: Int}, {Kind: Text}},
	}, point)
}

func TestMalformedClassesAreErrors(t *testing.T) {
	for _, class := range []string{
		"", "(", "Int32Type)", "Int32Type,UTF8Type", "ListType", "ListType(", "ListType()", "ListType(UTF8Type", "ListType(UTF8Type,Int32Type)",
		"MapType(UTF8Type)", "VectorType(FloatType)", "VectorType(FloatType,0)", "VectorType(FloatType,x)", "VectorType(FloatType,3", "VectorType(,3)",
		"UserType(ks)", "UserType(ks,zz)", "UserType(ks,61", "UserType(ks,61;", "UserType(ks,61,zz:Int32Type)", "UserType(ks,61,62Int32Type)",
		"UserType(ks,61,62:)", "frozen<loop>", `"a.b"`, "org.example.Open(a", strings.Repeat("ListType(", 40) + "UTF8Type" + strings.Repeat(")", 40),
	} {
		t.Run(class, func(t *testing.T) {
			_, err := ParseClass(class)
			if class == "org.example.Open(a" {
				require.NoError(t, err, "what a class of others has in parentheses is not looked at")
				return
			}
			require.Error(t, err)
		})
	}
}

func FuzzParseClass(f *testing.F) {
	f.Add(pointClass("Int32Type", "ListType(UTF8Type)"))
	f.Add("VectorType(FloatType , 3)")
	f.Add("org.example.Odd(a=>UTF8Type,b(c))")
	f.Fuzz(func(t *testing.T, class string) {
		got, err := ParseClass(class)
		if err == nil && !got.Decodes(got) {
			t.Fatalf("%s does not decode itself", got)
		}
	})
}

func TestDecodesComparesWhole(t *testing.T) {
	for name, test := range map[string]struct {
		snapshot, server string
		want             bool
	}{
		"the same native type":                    {"int", "int", true},
		"another native type":                     {"int", "float", false},
		"text and ascii":                          {"text", "ascii", false},
		"uuid and timeuuid":                       {"uuid", "timeuuid", false},
		"the same list":                           {"list<int>", "list<int>", true},
		"a list of other elements":                {"list<int>", "list<float>", false},
		"a list and a set":                        {"list<int>", "set<int>", false},
		"frozen on one side":                      {"frozen<list<int>>", "list<int>", true},
		"frozen within":                           {"list<frozen<set<int>>>", "list<set<int>>", true},
		"other keys of a map":                     {"map<int, text>", "map<bigint, text>", false},
		"other values of a map":                   {"map<int, text>", "map<int, blob>", false},
		"values of a map three types deep":        {"map<int, frozen<map<int, frozen<list<int>>>>>", "map<int, map<int, list<float>>>", false},
		"a shorter tuple":                         {"tuple<int, text>", "tuple<int>", false},
		"a longer tuple":                          {"tuple<int>", "tuple<int, text>", false},
		"another element of a tuple":              {"tuple<int, text>", "tuple<int, blob>", false},
		"a vector of another dimension":           {"vector<float, 3>", "vector<float, 4>", false},
		"a vector of other elements":              {"vector<float, 3>", "vector<int, 3>", false},
		"the same vector":                         {"vector<float, 3>", "vector<float, 3>", true},
		"the same user-defined type":              {"frozen<address>", "address", true},
		"another user-defined type":               {"frozen<address>", "frozen<\"Mixed Case\">", false},
		"a class in place of the type that it is": {"'org.apache.cassandra.db.marshal.DateType'", "timestamp", true},
		"a class that is another type":            {"'org.apache.cassandra.db.marshal.DateType'", "int", false},
		"the same class, written with spaces":     {"'org.example.Odd(a, b)'", "'org.example.Odd(a,b)'", true},
		"another class":                           {"'org.example.Odd'", "'org.example.Even'", false},
		"a class and a native type":               {"'org.example.Odd'", "int", false},
		"a native type and a class":               {"int", "'org.example.Odd'", false},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, err := Parse(test.snapshot, testUDTs, "ks")
			require.NoError(t, err)
			server, err := Parse(test.server, testUDTs, "ks")
			require.NoError(t, err)
			assert.Equal(t, test.want, snapshot.Decodes(server))
		})
	}
	unknown := &Type{Kind: Custom, Name: "frozen<no such type>"}
	assert.True(t, unknown.Decodes(&Type{Kind: Int}), "what could not be parsed is passed on as bytes")
	assert.True(t, (&Type{Kind: Custom, Name: "no_such_type"}).Decodes(&Type{Kind: Int}), "the name of a type is no class")
}

// udt returns a user-defined type ks.u of fields and types in turn.
func udt(fields ...string) *Type {
	t := &Type{Kind: UDT, Keyspace: "ks", Name: "u"}
	for i := 0; i < len(fields); i += 2 {
		t.Fields, t.Elems = append(t.Fields, fields[i]), append(t.Elems, &Type{Kind: nativeKinds[fields[i+1]]})
	}
	return t
}

func TestDecodesFieldsOfUserDefinedTypes(t *testing.T) {
	snapshot := udt("a", "int", "b", "text")
	for name, test := range map[string]struct {
		server *Type
		want   bool
	}{
		"the same fields":                     {udt("a", "int", "b", "text"), true},
		"a field was added":                   {udt("a", "int", "b", "text", "c", "int"), true},
		"the server has not heard of one yet": {udt("a", "int"), true},
		"a field has another type":            {udt("a", "int", "b", "blob"), false},
		"a field has another name":            {udt("a", "int", "z", "text"), false},
		"the fields in another order":         {udt("b", "text", "a", "int"), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, snapshot.Decodes(test.server)) })
	}
	other := udt("a", "int", "b", "text")
	other.Keyspace = "other"
	assert.False(t, snapshot.Decodes(other), "of another keyspace")
}
