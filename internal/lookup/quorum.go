package lookup

import (
	"cmp"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/quorum"
)

// versionBytes is the size of the write time and the TTL in a read of partition.OwnData, per
// cell.
const versionBytes = 8 + 4

// Answers returns how many replicas may answer for each key, and so how many answers are in
// memory at once: a quorum if the replicas may be asked for their own data, otherwise 1.
func (r *Request) Answers() int {
	settings := r.Table.Settings
	if !settings.QuorumReads || !isQuorum(partition.LevelOf(string(cmp.Or(r.Consistency, settings.Consistency)))) {
		return 1
	}
	return r.Table.quorum
}

// isQuorum reports whether l is a level at which replicas may be asked for their own data.
func isQuorum(l partition.Level) bool { return l == "LOCAL_QUORUM" || l == "QUORUM" }

// quorum returns how the keys of a request are read from their replicas; or nil when they are
// read through coordinators, and the reason: None if the level is no quorum.
func (s *Service) quorum(r *resolved) (*executor.Quorum, quorum.Outcome) {
	level := r.query.Consistency
	if !isQuorum(level) {
		return nil, quorum.None
	}
	if s.cfg.OwnData == nil {
		return nil, quorum.Refused
	}
	if !quorum.Comparable(r.query.Table, r.query.Columns) {
		return nil, quorum.Columns
	}
	if !r.localQuorum(level) {
		return nil, quorum.Replicas
	}
	hosts, why := s.cfg.OwnData(r.read.Ring, r.query.Table)
	if hosts == nil {
		return nil, why
	}
	if !r.read.Table.QuorumPays() {
		return nil, quorum.Share
	}
	query := r.query
	query.Consistency = partition.OwnData
	query.MaxBytes += versionBytes * len(partition.Versioned(query.Columns)) * len(r.read.Keys)
	return &executor.Quorum{Query: &query, Hosts: hosts}, quorum.None
}

// localQuorum reports whether each key has at least two known replicas, and these are all
// those of which the level needs a quorum. Only NetworkTopologyStrategy has a quorum per
// datacenter.
func (r *resolved) localQuorum(level partition.Level) bool {
	replication, _ := r.read.Ring.Replication(r.query.Table.Keyspace)
	each := level == "LOCAL_QUORUM" && replication.Strategy == "NetworkTopologyStrategy"
	for i, local := range r.read.Replicas {
		if len(local) < 2 || !each && len(local) != len(r.placement.Replicas(r.tokens[i])) {
			return false
		}
	}
	return true
}

// describeCompared adds to a plan the outcome of each key whose replicas were asked.
func (r *resolved) describeCompared(p *Plan, compared []quorum.Outcome) {
	for i := range p.Keys {
		if u := r.keys.of[i]; u != unread && compared != nil {
			p.Keys[i].Compared = compared[u]
		}
	}
}
