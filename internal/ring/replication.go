package ring

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The replication strategies that New knows. EverywhereStrategy is not in Apache
// Cassandra but in distributions of it.
const (
	// SimpleStrategy places replicas on the next distinct hosts of the ring.
	SimpleStrategy = "SimpleStrategy"
	// NetworkTopologyStrategy places a number of replicas in each datacenter,
	// on distinct racks as far as there are racks.
	NetworkTopologyStrategy = "NetworkTopologyStrategy"
	// EverywhereStrategy makes every host a replica of everything.
	EverywhereStrategy = "EverywhereStrategy"
	// LocalStrategy gives every host rows of its own; nothing is replicated.
	LocalStrategy = "LocalStrategy"
)

// Errors of ParseReplication, kept in Replication.Err.
var (
	// ErrReplicationOption means a replication option that breaks the rules of
	// its strategy.
	ErrReplicationOption = errors.New("the replication option cannot be read")
	// ErrTransient means transient replication, such as a factor of 3/1. Its
	// transient replicas hold only part of the data, and a read at one may miss
	// rows.
	ErrTransient = errors.New("transient replication is not supported")
)

// ParseReplication reads the replication column of system_schema.keyspaces. It
// always returns a usable value: an error (ErrReplicationOption or ErrTransient)
// is kept in Err, so that one invalid keyspace does not prevent a ring.
// Strategies it does not know are left for New to refuse.
func ParseReplication(option map[string]string) Replication {
	class := option["class"]
	r := Replication{Strategy: class[strings.LastIndexByte(class, '.')+1:]}
	switch r.Strategy {
	case "":
		r.Err = fmt.Errorf("%w: it names no class", ErrReplicationOption)
	case SimpleStrategy:
		r.Factor, r.Err = parseFactor("replication_factor", option["replication_factor"])
	case NetworkTopologyStrategy:
		r.Factors = make(map[string]int, len(option))
		// Sorted, so that of several mistakes the same one is always reported.
		for _, dc := range slices.Sorted(maps.Keys(option)) {
			if dc == "class" {
				continue
			}
			factor, err := parseFactor(dc, option[dc])
			if err != nil {
				r.Err = err
				break
			}
			r.Factors[dc] = factor
		}
	}
	return r
}

// parseFactor reads a replication factor: a count, or replicas/transient.
func parseFactor(name, s string) (int, error) {
	replicas, transient, slash := strings.Cut(s, "/")
	n, err := strconv.Atoi(replicas)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s is %q, want a number of replicas", ErrReplicationOption, name, s)
	}
	if slash && transient != "0" {
		return 0, fmt.Errorf("%w: %s is %q", ErrTransient, name, s)
	}
	return n, nil
}

// Equal reports whether both replications place every key alike.
func (r Replication) Equal(o Replication) bool { return r.String() == o.String() }

// String returns the replication as CQL writes it, such as {'class':
// 'SimpleStrategy', 'replication_factor': '3'}, followed by its Err if there is
// one. Replications with the same string place every key alike.
func (r Replication) String() string {
	var b strings.Builder
	add := func(name, value string) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(name) + ": " + quote(value))
	}
	add("class", r.Strategy)
	switch r.Strategy {
	case SimpleStrategy:
		add("replication_factor", strconv.Itoa(r.Factor))
	case NetworkTopologyStrategy:
		for _, dc := range slices.Sorted(maps.Keys(r.Factors)) {
			add(dc, strconv.Itoa(r.Factors[dc]))
		}
	}
	if r.Err != nil {
		return "{" + b.String() + "} (" + r.Err.Error() + ")"
	}
	return "{" + b.String() + "}"
}

// quote returns a string as a CQL literal.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
