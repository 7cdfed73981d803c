package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Datacenters is an ordered list of datacenters, written as one name or as a list.
type Datacenters []string

// Local returns the first name, the local datacenter; empty when there is none.
func (d Datacenters) Local() string {
	if len(d) == 0 {
		return ""
	}
	return d[0]
}

// Later returns the names after the first, to which lookups fail over; nil for none.
func (d Datacenters) Later() []string {
	if len(d) < 2 {
		return nil
	}
	return d[1:]
}

// DCFailover says at which levels the lookups of a table go to another datacenter.
type DCFailover string

// The ways to fail over to another datacenter.
const (
	// DCFailoverAuto fails over at levels for which one replica is enough.
	DCFailoverAuto DCFailover = "auto"
	// DCFailoverQuorum fails over at LOCAL_QUORUM and QUORUM as well.
	DCFailoverQuorum DCFailover = "quorum"
	DCFailoverOff    DCFailover = "off"
)

// isEither reports whether a value of the type is written as one scalar or as a list.
func isEither(t reflect.Type) bool { return t == reflect.TypeFor[Datacenters]() }

// one sets dst, a list, from a single scalar; an empty text gives an empty list.
func one(dst reflect.Value, text string) {
	dst.Set(reflect.MakeSlice(dst.Type(), 0, 1))
	if text != "" {
		dst.Set(reflect.Append(dst, reflect.ValueOf(text)))
	}
}

// datacenters checks local_dc and dc_failover_keys.
func (v *validator) datacenters(c *Cassandra) {
	for i, name := range c.LocalDC {
		at := fmt.Sprintf("cassandra.local_dc[%d]", i)
		v.check(strings.TrimSpace(name) != "", at, "is empty; name a datacenter, or remove it")
		v.check(strings.TrimSpace(name) == "" || !slices.Contains(c.LocalDC[:i], name), at,
			"%q is listed twice; name each datacenter once, the local one first", name)
	}
	v.check(c.DCFailoverKeys >= 0, "cassandra.dc_failover_keys",
		"%d is below 0; use a number of keys such as 1024, or 0 to ask no other datacenter", c.DCFailoverKeys)
}
