package coalesce

import (
	"fmt"
	"slices"
	"strings"
)

// Mode says which reads of a table are shared.
type Mode uint8

// The modes a table can choose.
const (
	// Auto shares reads at ONE, LOCAL_ONE and NODE_LOCAL: one replica's word,
	// which promises nothing of a write that has just been made.
	Auto Mode = iota
	// Never shares no read.
	Never
	// Always shares reads at every level. A lookup may then miss a write that was
	// acknowledged shortly before it was asked, also at a quorum.
	Always
)

var modeNames = []string{"auto", "false", "true"}

// Shares reports whether reads at a consistency level, in CQL's words, are shared.
func (m Mode) Shares(consistency string) bool {
	switch m {
	case Never:
		return false
	case Always:
		return true
	case Auto:
	}
	switch strings.ToUpper(consistency) {
	case "ONE", "LOCAL_ONE", "NODE_LOCAL":
		return true
	}
	return false
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
		return fmt.Errorf("%q is not a way to coalesce reads; use auto, true or false", text)
	}
	*m = Mode(i)
	return nil
}
