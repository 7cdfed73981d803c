// Package config decides which keys a configuration has, which values they accept and which
// combinations are impossible. It reads a YAML file and then the environment, and reports
// every mistake with file, line and key.
package config

import (
	"io/fs"
	"log/slog"
	"time"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// Config is the whole configuration. Default, Load and Parse make one. It holds no secret,
// only the paths of files that do.
type Config struct {
	// Cassandra says how to reach the cluster.
	Cassandra Cassandra `yaml:"cassandra"`
	// Listen says where clients and operators connect.
	Listen Listen `yaml:"listen"`
	// Admin is what the admin listener shows.
	Admin Admin `yaml:"admin"`
	// Defaults are the settings that every table inherits.
	Defaults Settings `yaml:"defaults"`
	// Tables are the tables that may be read; no other can be.
	Tables []Table `yaml:"tables"`
	// Clients are the known callers, each with what it may read; without any, everybody may
	// read all tables.
	Clients []Client `yaml:"clients"`
	// Admission says when lookups are refused.
	Admission Admission `yaml:"admission"`
	// Log is what the process logs.
	Log Log `yaml:"log"`
	// Shutdown is how the process ends.
	Shutdown Shutdown `yaml:"shutdown"`
	// Shadow is which lookups the plain driver repeats.
	Shadow Shadow `yaml:"shadow"`

	// origin says where each value comes from; nil when there is no file and no
	// environment.
	origin *origin
}

// Cassandra says how to reach the cluster.
type Cassandra struct {
	// ContactPoints are addresses or names, each with an optional :port; at
	// least one. Names are resolved again at every attempt to connect.
	ContactPoints []string `yaml:"contact_points"`
	// Port is the native transport port of contact points without one, 1–65535.
	Port int `yaml:"port"`
	// LocalDC are the datacenters whose replicas are asked, in the order of fail-over: the
	// first is the local one; empty means that of the contact points, which must then be
	// in only one.
	LocalDC Datacenters `yaml:"local_dc"`
	// DCFailoverKeys is the most keys in-flight to each datacenter other than the local one;
	// 0 asks no other.
	DCFailoverKeys int `yaml:"dc_failover_keys"`
	// LocalRack is the rack whose replicas are preferred; empty prefers none.
	LocalRack string `yaml:"local_rack"`
	// ConnectionsPerHost is the number of connections to each host, 1 or more.
	ConnectionsPerHost int `yaml:"connections_per_host"`
	// ConnectTimeout bounds each step of setting up a connection.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// RefreshInterval is the longest age of the ring and the schema when the
	// cluster announces no change.
	RefreshInterval time.Duration `yaml:"refresh_interval"`
	// Username authenticates; empty means no authentication.
	Username string `yaml:"username"`
	// PasswordFile holds the password of Username.
	PasswordFile string `yaml:"password_file"`
	// TLS encrypts the connections to the cluster.
	TLS ClientTLS `yaml:"tls"`
}

// ClientTLS is TLS towards the cluster.
type ClientTLS struct {
	// Enabled turns TLS on with the authorities of the system; any other field
	// that is not at its default turns it on as well.
	Enabled bool `yaml:"enabled"`
	// CAFile holds the authorities that sign the certificates of the nodes;
	// empty means those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's certificate; both or none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name in the certificates of the nodes; empty means the
	// address of the node, or a name of the node that resolves to it.
	ServerName string `yaml:"server_name"`
	// Verify is what a certificate of a node must show.
	Verify Verify `yaml:"verify"`
}

// Verify is what a certificate of a node must show.
type Verify string

// The ways to verify. VerifyCA does not check names.
const (
	VerifyFull Verify = "full"
	VerifyCA   Verify = "ca"
)

// On reports whether connections to the cluster are encrypted.
func (t ClientTLS) On() bool {
	return t.Enabled || t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != "" || t.Verify == VerifyCA
}

// Listen says where clients and operators connect. An address is host:port or
// unix:///path; an empty one turns its listener off.
type Listen struct {
	// GRPC and HTTP serve clients; at least one is on.
	GRPC string `yaml:"grpc"`
	HTTP string `yaml:"http"`
	// Admin serves metrics, health and status.
	Admin string `yaml:"admin"`
	// SocketMode is the permission of unix sockets.
	SocketMode fs.FileMode `yaml:"socket_mode"`
	// MaxRequestBytes is the largest request that GRPC and HTTP accept.
	MaxRequestBytes Bytes `yaml:"max_request_bytes"`
	// MaxConnections is the most connections to each listener, 1 or more. A further one
	// replaces the oldest on which no client has made a call, or else is closed at once.
	MaxConnections int `yaml:"max_connections"`
	// HandshakeTimeout bounds a TLS handshake, and the time until the headers of a request
	// have arrived.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout"`
	// WriteTimeout is how long a client may take to read what is written to it before its
	// connection is closed.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// IdleTimeout is how long a connection is kept without a request.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxConnectionAge is the age of a connection, ±10 %, at which its client is asked to
	// reconnect; 0 never asks.
	MaxConnectionAge time.Duration `yaml:"max_connection_age"`
	// Pprof serves the Go profiler on the admin listener.
	Pprof bool `yaml:"pprof"`
	// TLS encrypts listeners, each by itself.
	TLS ListenTLS `yaml:"tls"`
}

// ListenTLS is the TLS of each listener.
type ListenTLS struct {
	GRPC  ServerTLS `yaml:"grpc"`
	HTTP  ServerTLS `yaml:"http"`
	Admin ServerTLS `yaml:"admin"`
}

// ServerTLS is the TLS of one listener; the files are read again when they
// change.
type ServerTLS struct {
	// CertFile and KeyFile are PEM files; both or none. Without them the
	// listener is not encrypted.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ClientCAFile holds the authorities whose clients may connect; empty asks
	// clients for no certificate.
	ClientCAFile string `yaml:"client_ca_file"`
}

// Admin is what the admin listener shows.
type Admin struct {
	// HotKeys is how /hotkeys names keys.
	HotKeys HotKeys `yaml:"hot_keys"`
}

// HotKeys is how /hotkeys names keys.
type HotKeys string

// The ways to name hot keys; HotKeysOff counts none.
const (
	HotKeysHashed HotKeys = "hashed"
	HotKeysClear  HotKeys = "clear"
	HotKeysOff    HotKeys = "off"
)

// Admission says when lookups are shed so that the others keep to the SLO.
type Admission struct {
	// Enabled turns shedding on; without it the limits of clients are not enforced either.
	Enabled bool `yaml:"enabled"`
	// MinConcurrency and MaxConcurrency bound the limit of keys in-flight, which the proxy
	// finds itself; 1 or more, the first not above the second.
	MinConcurrency int `yaml:"min_concurrency"`
	MaxConcurrency int `yaml:"max_concurrency"`
	// MaxMemory is the memory budget in bytes, for requests that are being received, answers
	// of hosts and answers that are not sent yet, whether or not Enabled; 0 is half of the
	// memory limit of the process, or 1 GiB without one.
	MaxMemory Bytes `yaml:"max_memory"`
	// Ladder is what a table switches off when it misses its SLO.
	Ladder Ladder `yaml:"ladder"`
}

// Ladder has the burn rates from which a table switches features off; 0 means never.
type Ladder struct {
	// Hedges is the rate from which only stalled hosts are hedged.
	Hedges float64 `yaml:"hedges"`
	// Optional is the rate from which optional keys are shed.
	Optional float64 `yaml:"optional"`
	// Batch and Standard are the rates from which lookups of these priorities are shed.
	Batch    float64 `yaml:"batch"`
	Standard float64 `yaml:"standard"`
}

// Log is what the process logs.
type Log struct {
	// Level is the least level that is logged: debug, info, warn or error.
	Level slog.Level `yaml:"level"`
	// Format is how a record is written.
	Format LogFormat `yaml:"format"`
}

// LogFormat is how a record of the log is written.
type LogFormat string

// The formats of the log.
const (
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

// Shutdown is how the process ends after SIGTERM.
type Shutdown struct {
	// Delay is how long the process still serves while load balancers notice that it is not
	// ready.
	Delay time.Duration `yaml:"delay"`
	// Timeout is how long the lookups in-flight may take after Delay.
	Timeout time.Duration `yaml:"timeout"`
}

// Default returns the configuration of a proxy on the same machine as a Cassandra node. It
// allows no table.
func Default() Config {
	return Config{
		Cassandra: Cassandra{
			ContactPoints:      []string{"127.0.0.1"},
			LocalDC:            Datacenters{},
			Port:               9042,
			DCFailoverKeys:     1024,
			ConnectionsPerHost: 2,
			ConnectTimeout:     5 * time.Second,
			RefreshInterval:    time.Minute,
			TLS:                ClientTLS{Verify: VerifyFull},
		},
		Listen: Listen{
			GRPC:             "127.0.0.1:50051",
			HTTP:             "127.0.0.1:8080",
			Admin:            "127.0.0.1:8081",
			SocketMode:       0o660,
			MaxRequestBytes:  4 << 20,
			MaxConnections:   2048,
			HandshakeTimeout: 5 * time.Second,
			WriteTimeout:     30 * time.Second,
			IdleTimeout:      5 * time.Minute,
			MaxConnectionAge: 30 * time.Minute,
		},
		Admin: Admin{HotKeys: HotKeysHashed},
		Defaults: Settings{
			Consistency:      "LOCAL_ONE",
			Consistencies:    []Consistency{},
			QuorumReads:      QuorumCoordinator,
			Timeout:          125 * time.Millisecond,
			SpeculativeRetry: hedge.Fixed(15 * time.Millisecond),
			HedgeBudget:      0.02,
			Grouping:         planner.Cover,
			MaxKeys:          500,
			Merge:            MergeAuto,
			DCFailover:       DCFailoverAuto,
			MaxRowsPerKey:    1000,
			MaxResponseBytes: 4 << 20,
			SLA:              SLA{Percentile: 95, Target: 125 * time.Millisecond, OperateAt: 0.5},
		},
		Tables:  []Table{},
		Clients: []Client{},
		Admission: Admission{
			Enabled:        true,
			MinConcurrency: 100,
			MaxConcurrency: 100_000,
			Ladder:         Ladder{Hedges: 2, Optional: 3, Batch: 4, Standard: 8},
		},
		Log:      Log{Level: slog.LevelInfo, Format: LogJSON},
		Shutdown: Shutdown{Delay: 5 * time.Second, Timeout: 30 * time.Second},
		Shadow:   Shadow{Baseline: BaselineIn, Concurrency: 2},
	}
}
