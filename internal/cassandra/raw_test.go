package cassandra

import (
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRawListIsACQLList(t *testing.T) {
	assert.Equal(t, rawValue{0, 0, 0, 2, 0, 0, 0, 1, 'a', 0, 0, 0, 3, 'b', 'c', 'd'}, rawList([][]byte{[]byte("a"), []byte("bcd")}))
	assert.Equal(t, rawValue{0, 0, 0, 0}, rawList(nil))
}

func TestRawTypeIsSafeForTheDriver(t *testing.T) {
	text, err := gocql.SimpleCQLType{TypeInfo: gocql.NewNativeType(5, gocql.TypeVarchar, "")}.TypeInfoFromParams(5, nil)
	require.NoError(t, err)
	infer := func(typ gocql.Type, params ...any) gocql.TypeInfo {
		ti, err := rawType{typ: typ}.TypeInfoFromParams(5, params)
		require.NoError(t, err)
		return ti
	}
	set, list := infer(gocql.TypeSet, text), infer(gocql.TypeList, rawType{typ: gocql.TypeUDT})
	both := infer(gocql.TypeMap, text, text)
	cell := rawList([][]byte{[]byte("x"), []byte("y")})
	pairs := append(rawValue{0, 0, 0, 1}, cell[4:]...)
	for name, test := range map[string]struct {
		typ  gocql.TypeInfo
		data []byte
		want any
	}{
		"tokens":                              {set, cell, []string{"x", "y"}},
		"null tokens are still a set of text": {set, nil, []string(nil)},
		"a list of something else":            {list, cell, []byte(cell)},
		"replication":                         {both, pairs, map[string]string{"x": "y"}},
		"null replication":                    {both, nil, map[string]string(nil)},
		"a tuple":                             {infer(gocql.TypeTuple), []byte{1}, []byte{1}},
		"a null tuple":                        {infer(gocql.TypeTuple), nil, []byte(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			// As the driver does it: into an any that holds the zero value.
			got := test.typ.Zero()
			require.NotPanics(t, func() { require.NoError(t, gocql.Unmarshal(test.typ, test.data, &got)) })
			assert.Equal(t, test.want, got)
		})
	}
	assert.Equal(t, gocql.TypeCustom, infer(gocql.TypeTuple).Type(), "the driver asserts its own type on a tuple")
	_, err = both.Marshal("x")
	require.Error(t, err)
	require.Error(t, both.Unmarshal(nil, new(int)))
}

func FuzzTexts(f *testing.F) {
	f.Add([]byte(rawList([][]byte{[]byte("x")})), 1)
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 2)
	f.Fuzz(func(t *testing.T, cell []byte, per int) {
		per = 1 + per&1
		out, err := texts(cell, per)
		if err == nil && len(out)*4 > len(cell) {
			t.Fatalf("%d texts out of %d bytes", len(out), len(cell))
		}
	})
}
