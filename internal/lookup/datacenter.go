package lookup

import "github.com/qosproxy/qosproxy/internal/partition"

// DCFailover says at which levels the keys of a table are read in another datacenter when too
// few local replicas can be reached.
type DCFailover uint8

// The values of DCFailover.
const (
	// DCFailoverOff never fails over.
	DCFailoverOff DCFailover = iota
	// DCFailoverOne fails over at levels for which one replica is enough.
	DCFailoverOne
	// DCFailoverQuorum fails over at LOCAL_QUORUM and QUORUM as well. LOCAL_QUORUM then means
	// a quorum of the other datacenter.
	DCFailoverQuorum
)

// allows reports whether reads at level l may go to another datacenter.
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
