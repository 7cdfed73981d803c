package server

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// valueKeys returns the encoder of keys that are messages.
func valueKeys(t *schema.Table, keys []*qosproxyv1.Key) keyEncoder {
	return func(i int) (partition.Key, error) {
		values := keys[i].GetComponents()
		return valueKey(t, values, make([][]byte, 0, len(values)))
	}
}

// TestEncodedKeysMeanWhatProtobufSays compares keys taken from the wire with the same keys
// decoded as messages.
func TestEncodedKeysMeanWhatProtobufSays(t *testing.T) {
	component := func(value []byte) []byte { return appendBytes(nil, keyComponents, value) }
	word := appendBytes(nil, kindText, []byte("é"))
	other := appendBytes(nil, kindText, []byte("other"))
	number := appendVarint(nil, kindInt, 14)
	unknown := appendVarint(nil, 1000, 1)
	for name, key := range map[string][]byte{
		"a text":                      component(word),
		"an empty text":               component(appendBytes(nil, kindText, nil)),
		"a text that is not UTF-8":    component(appendBytes(nil, kindText, []byte{0xff})),
		"another kind":                component(number),
		"bytes":                       component(appendBytes(nil, kindBlob, []byte("é"))),
		"of two texts the last":       component(slices.Concat(word, other)),
		"of two kinds the last":       component(slices.Concat(word, number)),
		"an unknown kind":             component(slices.Concat(word, unknown)),
		"a text as a number":          component(appendVarint(nil, kindText, 1)),
		"an unset value":              component(nil),
		"no component":                {},
		"two components":              slices.Concat(component(word), component(word)),
		"an unknown field of the key": slices.Concat(component(word), unknown),
		"a cut off component":         component(word)[:3],
		"a cut off text":              component(word[:2]),
		"no field at all":             {0x07},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cql := range []string{"text", "ascii", "int", "blob"} {
				tbl := table(t, "t", 1, "id "+cql, "a int")
				request := slices.Concat(appendBytes(nil, 1, []byte("ks")), appendBytes(nil, requestKeys, key), appendBytes(nil, 2, []byte("t")),
					appendBytes(nil, requestKeys, component(other)))
				var in qosproxyv1.BatchGetRequest
				require.NoError(t, newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(request)}, &in))
				assert.Equal(t, "ks", in.GetKeyspace())
				assert.Equal(t, "t", in.GetTable())
				keys := encodedKeys(&in)
				require.Equal(t, [][]byte{key, component(other)}, keys)

				got, err := wireKeys(tbl.Schema, keys)(0)
				var message qosproxyv1.Key
				if proto.Unmarshal(key, &message) != nil {
					assert.Error(t, err)
					continue
				}
				want, wantErr := valueKeys(tbl.Schema, []*qosproxyv1.Key{&message})(0)
				assert.Equal(t, wantErr, err)
				assert.Equal(t, want, got)
			}
		})
	}
}

func TestCodecRefusesWhatIsNoMessage(t *testing.T) {
	for _, b := range [][]byte{{0x07}, {0x1a, 5, 1}, appendBytes(nil, 1, []byte{0xff})} {
		assert.Error(t, newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &qosproxyv1.StreamBatchGetRequest{}))
	}
}

// TestKeysOutliveTheirMessage reads keys after the buffer in which they arrived has been
// reused.
func TestKeysOutliveTheirMessage(t *testing.T) {
	tbl := table(t, "t", 1, "id text")
	b := marshal(t, &qosproxyv1.BatchGetRequest{Keys: []*qosproxyv1.Key{key(text("a")), key(text("b"))}})
	var in qosproxyv1.BatchGetRequest
	require.NoError(t, newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &in))
	encode := wireKeys(tbl.Schema, encodedKeys(&in))
	var keys [2]partition.Key
	for i := range keys {
		var err error
		keys[i], err = encode(i)
		require.NoError(t, err)
	}
	clear(b)
	assert.Equal(t, "a", string(keys[0].Routing()))
	assert.Equal(t, "b", string(keys[1].Routing()))
}

// TestNestedNumbersAreBounded has numbers in a list that are too long for any key: converting
// megabytes to decimal takes seconds.
func TestNestedNumbersAreBounded(t *testing.T) {
	tbl := table(t, "t", 1, "id frozen<list<varint>>")
	number := func(size int) *qosproxyv1.Value {
		digits := bytes.Repeat([]byte{1}, size)
		return &qosproxyv1.Value{Kind: &qosproxyv1.Value_List{List: &qosproxyv1.ListValue{
			Elements: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Varint{Varint: digits}}},
		}}}
	}
	of := tbl.Schema.PartitionKey[0].Type
	_, err := appendValueJSON(nil, of, number(partition.MaxKeyBytes))
	require.NoError(t, err)
	written, err := appendValueJSON(nil, of, number(partition.MaxKeyBytes+1))
	require.ErrorIs(t, err, partition.ErrKeyTooLong)
	assert.Equal(t, "[", string(written), "refused before it is written")
}
