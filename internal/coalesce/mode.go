package coalesce

import (
	"fmt"
	"slices"

	"github.com/qosproxy/qosproxy/internal/partition"
)

// Mode says which reads of a table are shared.
type Mode uint8

// The modes a table can choose.
const (
	// Auto shares reads at ONE, LOCAL_ONE and NODE_LOCAL. Their answer is that of one
	// replica, which guarantees nothing about a recent write anyway.
	Auto Mode = iota
	// Never shares no read.
	Never
	// Always shares reads at every level. A lookup may then miss a write that was
	// acknowledged shortly before it, even at a quorum.
	Always
)

var modeNames = []string{"auto", "false", "true"}

// Shares reports whether reads at a consistency level are shared.
func (m Mode) Shares(level partition.Level) bool {
	return m == Always || m == Auto && level.OneReplica()
}

// String returns the word that UnmarshalText reads: auto, false or true.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// MarshalText returns the word that UnmarshalText reads.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads auto, true or false.
func (m *Mode) UnmarshalText(text []byte) error {
	i := slices.Index(modeNames, string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a coalescing mode; use auto, true or false", text)
	}
	*m = Mode(i)
	return nil
}
