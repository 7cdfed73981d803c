// Package cassandra decides when a snapshot of ring and schema may replace the last
// one, and how a group of keys becomes statements. It is the only package that knows
// the driver. It keeps the sessions to a cluster, reads its system tables, and reads
// partitions from one chosen host.
package cassandra

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/secret"
)

// Config says how to reach a cluster. The zero value of a field with a default
// means that default.
type Config struct {
	// ContactPoints are addresses or names, each with an optional :port. Names
	// are resolved again at every attempt to connect. At least one.
	ContactPoints []string
	// Port is the native transport port of contact points without one, and of peers for which the
	// cluster reports none; 1–65535, default 9042.
	Port int
	// LocalDC is the datacenter whose replicas are asked. Empty means the
	// datacenter of the contact points, which must then be in only one.
	LocalDC string
	// LaterDCs are the datacenters to fail over to, in order: a Cluster connects to their
	// hosts as well. They need a LocalDC.
	LaterDCs []string
	// Username and Password authenticate; an empty Username means no
	// authentication.
	Username string
	Password secret.Text
	// TLS is the TLS configuration of the client, or nil for plain connections. The server's
	// certificate is always verified, whatever InsecureSkipVerify says: it must carry ServerName
	// or, if that is empty, the address of the node or a name of the node that resolves to it.
	TLS *tls.Config
	// AnyName accepts every server certificate of the authorities of TLS, even one that names
	// another node or none.
	AnyName bool
	// Access returns the credentials and TLS of a new connection, in place of Username, Password,
	// TLS and AnyName, so that they can change at runtime. It is called concurrently. Nil means
	// those fields.
	Access func() Access
	// ConnectionsPerHost is the number of connections to each host; default 2.
	ConnectionsPerHost int
	// ConnectTimeout bounds each step of setting up a connection; default 5 s.
	ConnectTimeout time.Duration
	// RequestTimeout bounds a request whose context ends later; default 10 s.
	RequestTimeout time.Duration
	// RefreshInterval is the longest age of a snapshot, ±10 %, when the cluster
	// announces no change; default 60 s.
	RefreshInterval time.Duration
	// Consistency is the level of the statements of a Client, in CQL's words; default LOCAL_QUORUM.
	// Reads of a Cluster have their own.
	Consistency string
	// NodeLocal permits reads of a Cluster at NODE_LOCAL and at partition.OwnData, where that is
	// safe and the hosts allow it; a background watch decides. Without it, NODE_LOCAL is read at
	// LOCAL_ONE, and OwnData is refused.
	NodeLocal bool
	// Logger receives the messages of the driver and this package; default slog.Default.
	Logger *slog.Logger
	// Incidents records the panics of reads and background work; nil only logs them.
	Incidents *incident.Log
	// Registerer receives the metrics of a Cluster; nil for none.
	Registerer prometheus.Registerer
}

// Default returns the configuration for a cluster on this machine.
func Default() Config {
	return Config{
		ContactPoints:      []string{"127.0.0.1"},
		Port:               9042,
		ConnectionsPerHost: 2,
		ConnectTimeout:     5 * time.Second,
		RequestTimeout:     10 * time.Second,
		RefreshInterval:    60 * time.Second,
		Consistency:        "LOCAL_QUORUM",
	}
}

// ErrConfig means that no cluster can be reached with a Config, whatever its
// state; the wrapped message names the field.
var ErrConfig = errors.New("impossible cassandra configuration")

// complete returns c with its defaults filled in, or an error that names the
// field that cannot be.
func (c Config) complete() (Config, error) {
	d := Default()
	c.Port = orDefault(c.Port, d.Port)
	c.ConnectionsPerHost = orDefault(c.ConnectionsPerHost, d.ConnectionsPerHost)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, d.ConnectTimeout)
	c.RequestTimeout = orDefault(c.RequestTimeout, d.RequestTimeout)
	c.RefreshInterval = orDefault(c.RefreshInterval, d.RefreshInterval)
	c.Consistency = orDefault(c.Consistency, d.Consistency)
	c.Logger = orDefault(c.Logger, slog.Default())
	switch {
	case len(c.ContactPoints) == 0:
		return c, fmt.Errorf("%w: contact_points is empty; name at least one node", ErrConfig)
	case c.Port < 1 || c.Port > 65535:
		return c, fmt.Errorf("%w: port is %d; it must be 1 to 65535", ErrConfig, c.Port)
	case len(c.LaterDCs) > 0 && c.LocalDC == "":
		return c, fmt.Errorf("%w: local_dc names datacenters to fail over to and no local one", ErrConfig)
	case c.ConnectionsPerHost < 1:
		return c, fmt.Errorf("%w: connections_per_host is %d; it must be at least 1", ErrConfig, c.ConnectionsPerHost)
	case c.ConnectTimeout < 0 || c.RequestTimeout < 0 || c.RefreshInterval < 0:
		return c, fmt.Errorf("%w: a timeout or interval is negative", ErrConfig)
	case c.Username == "" && !c.Password.Empty():
		return c, fmt.Errorf("%w: a password without a username", ErrConfig)
	}
	for _, p := range c.ContactPoints {
		if strings.TrimSpace(p) == "" {
			return c, fmt.Errorf("%w: a contact point is empty", ErrConfig)
		}
	}
	var err error
	if c.Consistency, err = ParseConsistency(c.Consistency); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// endpoints returns the contact points as host:port, for messages.
func (c Config) endpoints() []string {
	out := make([]string, len(c.ContactPoints))
	for i, p := range c.ContactPoints {
		if _, _, err := net.SplitHostPort(p); err == nil {
			out[i] = p
			continue
		}
		out[i] = net.JoinHostPort(p, strconv.Itoa(c.Port))
	}
	return out
}

// names returns the contact points that are names, without ports.
func (c Config) names() []string {
	var out []string
	for _, p := range c.endpoints() {
		name, _, err := net.SplitHostPort(p)
		if _, numeric := netip.ParseAddr(name); err == nil && numeric != nil {
			out = append(out, name)
		}
	}
	return out
}

// orDefault returns v, or d when v is the zero value.
func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}
