package partition_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/partition"
)

func TestNewKey(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, partition.MaxKeyBytes)
	for name, tc := range map[string]struct {
		components [][]byte
		routing    []byte
		err        error
	}{
		"a single column is its own routing key":       {components: [][]byte{{1, 2}}, routing: []byte{1, 2}},
		"a composite has length, bytes and a zero":     {components: [][]byte{{'a'}, {0, 7}}, routing: []byte{0, 1, 'a', 0, 0, 2, 0, 7, 0}},
		"a component of a composite may be empty":      {components: [][]byte{{}, {9}}, routing: []byte{0, 0, 0, 0, 1, 9, 0}},
		"a single column of 65,535 bytes is the most":  {components: [][]byte{long}, routing: long},
		"a byte more is too long":                      {components: [][]byte{append(slices.Clip(long), 0)}, err: partition.ErrKeyTooLong},
		"a composite counts three bytes per component": {components: [][]byte{long[:len(long)-5], {}}, err: partition.ErrKeyTooLong},
		"an empty single column is refused":            {components: [][]byte{{}}, err: partition.ErrEmptyKey},
		"no component is an empty key":                 {err: partition.ErrEmptyKey},
		"a null component is refused":                  {components: [][]byte{{1}, nil}, err: partition.ErrNullKey},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := partition.NewKey(tc.components...)
			require.ErrorIs(t, err, tc.err)
			if tc.err == nil {
				assert.Equal(t, tc.routing, k.Routing())
				assert.Equal(t, tc.components, k.Components())
			}
		})
	}
}

func TestStatusNamesAreTheContract(t *testing.T) {
	var names []string
	for _, s := range partition.Statuses {
		names = append(names, s.String())
	}
	assert.Equal(t, []string{"FOUND", "NOT_FOUND", "TIMED_OUT", "UNAVAILABLE", "SHED", "TOO_LARGE", "FAILED"}, names)
	assert.Equal(t, "STATUS(99)", partition.Status(99).String())
}

func TestHowManyReplicasALevelRequires(t *testing.T) {
	for level, of := range map[partition.Level][2]int{ // of 3 and of 5 local replicas
		"LOCAL_ONE": {1, 1}, "NODE_LOCAL": {1, 1}, "LOCAL_QUORUM": {2, 3}, "LOCAL_SERIAL": {2, 3}, "EACH_QUORUM": {2, 3},
		"ALL": {3, 5}, "QUORUM": {1, 1}, "TWO": {1, 1}, "SERIAL": {1, 1}, partition.OwnData: {1, 1},
	} {
		assert.Equal(t, of[0], level.Required(3), level)
		assert.Equal(t, of[1], level.Required(5), level)
	}
}
