package lookup

import "github.com/qosproxy/qosproxy/internal/partition"

// DCFailover says at which levels the keys of a table are read in another datacenter when too
// few local replicas can be reached.
type DCFailover uint8

// The ways to fail over.
const (
	// DCFailoverOff is at no level.
	DCFailoverOff DCFailover = iota
	// DCFailoverOne is at the levels of which one replica is enough.
	DCFailoverOne
	// DCFailoverQuorum is at LOCAL_QUORUM and QUORUM as well. LOCAL_QUORUM then is of the
	// replicas of the other datacenter.
	DCFailoverQuorum
)

// allows reports whether reads at a level may go to another datacenter.
func (f DCFailover) allows(l partition.Level) bool {
	switch f {
	case DCFailoverOne:
		return l.OneReplica()
	case DCFailoverQuorum:
		return l.OneReplica() || isQuorum(l)
	case DCFailoverOff:
	}
	return false
}
