//go:build chaos

package chaos

import "time"

// quorumSettings makes a table read at LOCAL_QUORUM, by replicas where these can be asked.
var quorumSettings = []string{"consistency: LOCAL_QUORUM", "quorum_reads: replicas"}

// byReplicas are faults of a node under quorum reads by replicas, which then need both other nodes.
// Quorum reads by coordinators have no such promise: a coordinator may choose the node in trouble
// as its second replica.
var byReplicas = []scenario{
	replicasUnder("replicas-frozen", "one node frozen for 20 s (SIGSTOP), quorum_reads: replicas", false, (*arena).freeze),
	replicasUnder("replicas-slow", "one node with 5 % of a CPU for 20 s, quorum_reads: replicas", false, (*arena).slow),
	killedReplica(),
	replicasUnder("replicas-black-hole", "CQL port of one node black-holed both ways for 20 s, quorum_reads: replicas", true,
		func(a *arena) { a.drop(bothWays(a.node(3))...) }),
}

// askedReplicas is the share of keys that replicas answered, of those asked during a try.
const askedReplicas = "keys answered by replicas"

func replicasUnder(name, fault string, network bool, do func(*arena)) scenario {
	return scenario{
		name: name, fault: fault, promise: faultPromise, network: network, without: nothingProtects,
		rely: "Quorum reads by replicas are as reliable as reads of one replica, as long as a quorum lives.",
		measure: func(a *arena, safe bool) *Outcome {
			s := a.quorumSubject(safe)
			keys, matched := a.sum(s, quorumReads), a.sum(s, quorumReads, "outcome", "matched")
			o := a.underFault(s, safe, 0, func() { do(a) })
			o.share(askedReplicas, a.sum(s, quorumReads, "outcome", "matched")-matched, a.sum(s, quorumReads)-keys)
			return o
		},
		judge: func(o *Outcome) []Check {
			return append(faultChecks(o), sane("replicas answered less than half of the keys", o.Value(askedReplicas) > 0.5))
		},
	}
}

// killedReplica has no control: fail-over needs no hedging, and one replica alone is no quorum.
func killedReplica() scenario {
	s := replicasUnder("replicas-killed", "one node killed (-9) and started again, quorum_reads: replicas", false, (*arena).kill)
	s.without, s.why = "", "it is measured as killed, whose control breaks"
	return s
}

const quorumReads = "qosproxy_quorum_reads_total"

// quorumSubject returns a proxy for the first table that asks replicas: it has watched the ring for
// long enough.
func (a *arena) quorumSubject(safe bool) *subject {
	var s *subject
	if safe {
		s = a.subject(3, quorumSettings...)
	} else {
		s = a.start(true, 3, append(quorumSettings[:2:2], noHedge...), "CHAOS_AVOIDANCE=nothing").alone()
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		before := a.sum(s, quorumReads, "outcome", "matched")
		a.load(s, time.Second)
		if a.sum(s, quorumReads, "outcome", "matched") > before {
			break
		}
	}
	return s
}
