package cassandra

import (
	"fmt"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// consistencyLevels are the levels of statements by CQL name. ANY is missing because it is for
// writes only, NODE_LOCAL because it is for reads that choose their host, see nodeLocal.
var consistencyLevels = map[string]gocql.Consistency{
	"ONE": gocql.One, "TWO": gocql.Two, "THREE": gocql.Three, "QUORUM": gocql.Quorum, "ALL": gocql.All,
	"LOCAL_ONE": gocql.LocalOne, "LOCAL_QUORUM": gocql.LocalQuorum, "EACH_QUORUM": gocql.EachQuorum,
	"SERIAL": gocql.Serial, "LOCAL_SERIAL": gocql.LocalSerial,
}

// ParseConsistency returns the consistency level that s names, in upper case; s may be in any case.
// It refuses NODE_LOCAL, which is only for reads that choose their host. The error lists the valid
// levels.
func ParseConsistency(s string) (string, error) {
	level := strings.ToUpper(s)
	_, err := consistency(level)
	return level, err
}

// consistency returns the driver's value of a level in upper case.
func consistency(s string) (gocql.Consistency, error) {
	if c, ok := consistencyLevels[s]; ok {
		return c, nil
	}
	names := make([]string, 0, len(consistencyLevels))
	for n := range consistencyLevels {
		names = append(names, n)
	}
	slices.Sort(names)
	return 0, fmt.Errorf("unknown consistency level %q; use one of %s", s, strings.Join(names, ", "))
}
