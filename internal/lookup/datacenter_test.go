package lookup

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/partition"
)

func TestALevelLeavesTheDatacenterOnlyIfTheTableSaysSo(t *testing.T) {
	for level, want := range map[partition.Level][3]bool{ // off, one, quorum
		"ONE": {false, true, true}, "LOCAL_ONE": {false, true, true}, "NODE_LOCAL": {false, true, true},
		"LOCAL_QUORUM": {false, false, true}, "QUORUM": {false, false, true},
		"TWO": {}, "THREE": {}, "EACH_QUORUM": {}, "ALL": {},
	} {
		for f, may := range want {
			assert.Equal(t, may, DCFailover(f).allows(level), "%s at %d", level, f)
		}
	}
}
