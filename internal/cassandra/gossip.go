package cassandra

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// member is one node as the gossip of another describes it.
type member struct {
	// id is the host id; empty while it is not known.
	id string
	// addr is the address among nodes, for messages.
	addr string
	// status is the first word of its status, such as NORMAL, BOOT or LEAVING; empty for a node
	// that has none, because it has just started or the asked node knows it from its own disk
	// alone.
	status string
	// token is one of the tokens of a NORMAL node; empty when gossip has none.
	token string
	// schema is the version of its schema, or of the last one before it went down; empty
	// while it is not known.
	schema string
	// generation is when the process of the node started, in seconds of its clock.
	generation int
}

// gossipQuery reads all that newMember needs. No other table shows clients a
// node that is joining, leaving or moving; Cassandra has this one since 5.0.
const gossipQuery = "SELECT address, generation, host_id, \"schema\", status, status_with_port FROM system_views.gossip_info"

// gossip returns what a host has heard of all nodes, itself included.
func gossip(ctx context.Context, s *gocql.Session, host ring.Host) ([]member, error) {
	rows, err := s.Query(gossipQuery).Consistency(gocql.One).SetHostID(host.ID).
		PageSize(systemPageRows).Prefetch(0).IterContext(ctx).SliceMap()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", headline(gossipQuery), err)
	}
	return membersOf(rows), nil
}

// membersOf converts the rows of gossip.
func membersOf(rows []row) []member {
	out := make([]member, len(rows))
	for i, r := range rows {
		out[i] = newMember(r)
	}
	return out
}

func newMember(r row) member {
	m := member{id: text(r["host_id"]), schema: text(r["schema"])}
	if a, ok := hostAddress(r["address"]); ok {
		m.addr = a.String()
	}
	m.generation, _ = r["generation"].(int)
	status := text(r["status_with_port"])
	if status == "" { // from a node of a version before 4.0
		status = text(r["status"])
	}
	status, detail, _ := strings.Cut(status, ",")
	if m.status = strings.ToUpper(status); m.status == "NORMAL" {
		m.token = detail
	}
	return m
}

// restless returns why the hosts of a ring may not own what the ring says, judging by the gossip of
// one node; empty when nothing suggests it. The statuses are those of VersionedValue in Cassandra's
// source.
func restless(r *ring.Ring, members []member) string {
	heard := make(map[string]bool, len(members))
	for _, m := range members {
		i, inRing := r.Index(m.id)
		heard[m.id] = true
		switch m.status {
		case "NORMAL":
			switch {
			case !inRing:
				return m.addr + " has joined and is not in the ring yet"
			case m.token != "" && !hasToken(r.Host(i), m.token):
				return m.addr + " has moved and is not in the ring at its new place yet"
			}
		case "SHUTDOWN": // stopped by an operator; owns what it did
		case "": // in the ring: down since the asked node started
			if !inRing {
				return m.addr + " is starting"
			}
		case "HIBERNATE": // not in the ring: a coordinator without data
			if inRing {
				return m.addr + " is replaced"
			}
		case "LEFT", "REMOVED": // remembered for days
			if inRing {
				return r.Host(i).Addr + " has left and is in the ring still"
			}
		default: // BOOT, BOOT_REPLACE, LEAVING, MOVING, REMOVING
			return m.addr + " is " + m.status
		}
	}
	for _, h := range r.Hosts() {
		if !heard[h.ID] {
			return h.Addr + " is in the ring and not in gossip"
		}
	}
	return ""
}

// hasToken reports whether a host of the ring owns a token of gossip.
func hasToken(h ring.Host, token string) bool {
	t, err := strconv.ParseInt(token, 10, 64)
	return err == nil && slices.Contains(h.Tokens, t)
}
