package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/admission"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/cost"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/secret"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/sla"
)

// Check returns why Start and reloads would refuse a configuration that is valid by itself: a file
// cannot be read, or its password, certificates or tokens cannot be used.
func Check(cfg *config.Config) error {
	if err := cfg.CheckFiles(); err != nil {
		return err
	}
	_, access := accessOf(cfg)
	_, clients := identity.NewRegistry(nil, nil).Prepare(members(cfg))
	if clients != nil {
		clients = fmt.Errorf("clients: %w", clients)
	}
	return errors.Join(access, serverConfig(cfg).Check(), clients)
}

// accessOf reads the files that authenticate connections to the cluster, in both
// directions. The error names the key.
func accessOf(cfg *config.Config) (cassandra.Access, error) {
	c := cfg.Cassandra
	out := cassandra.Access{Username: c.Username}
	var err error
	if out.Password, err = password(c.PasswordFile); err != nil {
		return out, fmt.Errorf("cassandra.password_file: %w", err)
	}
	if out.TLS, err = clientTLS(c.TLS); err != nil {
		return out, fmt.Errorf("cassandra.tls: %w", err)
	}
	out.AnyName = c.TLS.Verify == config.VerifyCA
	return out, nil
}

// password reads a secret from a file, without line ends at its end.
func password(file string) (secret.Text, error) {
	if file == "" {
		return secret.Text{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return secret.Text{}, err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return secret.Text{}, fmt.Errorf("%s is empty; write the password into it", file)
	}
	return secret.New(text), nil
}

// clientTLS returns the TLS configuration of a client; nil if TLS is off.
func clientTLS(t config.ClientTLS) (*tls.Config, error) {
	if !t.On() {
		return nil, nil //nolint:nilnil // No TLS is a valid outcome, not an error.
	}
	out := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// lookupSettings returns the configuration of each table.
func lookupSettings(cfg *config.Config) []lookup.Settings {
	out := make([]lookup.Settings, len(cfg.Tables))
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		s := cfg.Effective(t)
		out[i] = lookup.Settings{
			Keyspace:         t.Name.Keyspace,
			Table:            t.Name.Table,
			Columns:          t.Columns,
			Consistency:      partition.Level(s.Consistency),
			Consistencies:    levels(s.Consistencies),
			QuorumReads:      s.QuorumReads == config.QuorumReplicas,
			Timeout:          s.Timeout,
			SpeculativeRetry: s.SpeculativeRetry,
			HedgeBudget:      float64(s.HedgeBudget),
			Grouping:         s.Grouping,
			MaxKeys:          s.MaxKeys,
			MaxKeysPerGroup:  s.MaxKeysPerGroup,
			MaxRowsPerKey:    s.MaxRowsPerKey,
			MaxResponseBytes: int(s.MaxResponseBytes),
			Coalesce:         s.Coalesce,
			Alone:            s.Merge == config.MergeOff,
			DCFailover:       dcFailovers[s.DCFailover],
		}
	}
	return out
}

// tableNames returns keyspace and name of each table.
func tableNames(cfg *config.Config) [][2]string {
	out := make([][2]string, len(cfg.Tables))
	for i := range cfg.Tables {
		out[i] = [2]string{cfg.Tables[i].Name.Keyspace, cfg.Tables[i].Name.Table}
	}
	return out
}

// dcFailovers maps the words of dc_failover to their meaning.
var dcFailovers = map[config.DCFailover]lookup.DCFailover{
	config.DCFailoverAuto: lookup.DCFailoverOne, config.DCFailoverQuorum: lookup.DCFailoverQuorum, config.DCFailoverOff: lookup.DCFailoverOff,
}

// levels converts consistency levels for lookups.
func levels(of []config.Consistency) []partition.Level {
	out := make([]partition.Level, len(of))
	for i, l := range of {
		out[i] = partition.Level(l)
	}
	return out
}

// members returns the clients with what identifies them.
func members(cfg *config.Config) []identity.Member {
	out := make([]identity.Member, len(cfg.Clients))
	for i := range cfg.Clients {
		c := &cfg.Clients[i]
		out[i] = identity.Member{
			Client: cfg.Share(c), SPIFFE: c.SPIFFE, DNSNames: c.DNSSAN, TokenFile: c.TokenFile, SocketHeader: c.SocketHeader,
		}
	}
	return out
}

// wantsNodeLocal reports whether hosts are asked for their own data of some table: at
// NODE_LOCAL, or for a quorum.
func wantsNodeLocal(cfg *config.Config) bool {
	return slices.ContainsFunc(lookupSettings(cfg), func(s lookup.Settings) bool {
		return s.Consistency == cassandra.NodeLocal || slices.Contains(s.Consistencies, cassandra.NodeLocal) || s.QuorumReads
	})
}

// targets returns the SLA of each table.
func targets(cfg *config.Config) map[string]sla.Target {
	out := make(map[string]sla.Target, len(cfg.Tables))
	for i := range cfg.Tables {
		t := cfg.Effective(&cfg.Tables[i]).SLA
		out[cfg.Tables[i].Name.String()] = sla.Target{
			Percentile: t.Percentile,
			Target:     t.Target,
			OperateAt:  time.Duration(float64(t.Target) * float64(t.OperateAt)),
		}
	}
	return out
}

// groupBudgets returns how long a group of each table may take.
func groupBudgets(cfg *config.Config) map[string]time.Duration {
	out := make(map[string]time.Duration, len(cfg.Tables))
	for name, t := range targets(cfg) {
		out[name] = t.OperateAt
	}
	for i := range cfg.Tables {
		name := cfg.Tables[i].Name.String()
		out[name] = cost.Budget(cfg.Effective(&cfg.Tables[i]).SpeculativeRetry, out[name])
	}
	return out
}

// admissionLimits returns the configuration of admission.
func (a *App) admissionLimits(cfg *config.Config) admission.Limits {
	return limitsOf(cfg, a.budget(cfg))
}

func limitsOf(cfg *config.Config, memory int64) admission.Limits {
	a := cfg.Admission
	return admission.Limits{
		Enabled:        a.Enabled,
		MinConcurrency: a.MinConcurrency,
		MaxConcurrency: a.MaxConcurrency,
		MaxMemory:      memory,
		Ladder:         admission.Ladder{Hedges: a.Ladder.Hedges, Optional: a.Ladder.Optional, Batch: a.Ladder.Batch, Standard: a.Ladder.Standard},
	}
}

// budget returns how many bytes requests and answers may take. The other half of the
// memory of the process is for the runtime, the ring, connections and garbage.
func (a *App) budget(cfg *config.Config) int64 {
	switch given := cfg.Admission.MaxMemory; {
	case given > 0:
		return int64(given)
	case a.memoryLimit == math.MaxInt64:
		return admission.DefaultLimits().MaxMemory
	}
	return a.memoryLimit / 2
}

const (
	// besidesBudget is what the process takes besides requests and answers, in bytes.
	besidesBudget = 64 << 20
	// leastMemory is the minimum limit for the runtime, in bytes: below, it would collect
	// garbage all the time.
	leastMemory = 192 << 20
)

// boundHeap makes the runtime collect garbage before the heap is much larger than the
// budget; by itself it lets the heap grow to twice what is in use. It keeps a limit that
// was set from outside.
func (a *App) boundHeap(cfg *config.Config) {
	if a.options.OwnProcess && a.memoryLimit == math.MaxInt64 {
		debug.SetMemoryLimit(max(a.budget(cfg)+besidesBudget, leastMemory))
	}
}

// slos returns the SLO of each table, for admission.
func slos(cfg *config.Config) map[string]admission.SLO {
	out := make(map[string]admission.SLO, len(cfg.Tables))
	for name, t := range targets(cfg) {
		out[name] = admission.SLO{Target: t.Target, Percentile: t.Percentile}
	}
	return out
}

// serverConfig returns where and how to listen.
func serverConfig(cfg *config.Config) server.Config {
	l := cfg.Listen
	listener := func(address string, t config.ServerTLS) server.Listener {
		return server.Listener{
			Address:    address,
			SocketMode: l.SocketMode,
			TLS:        server.TLS{CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile},
		}
	}
	return server.Config{
		GRPC:            listener(l.GRPC, l.TLS.GRPC),
		HTTP:            listener(l.HTTP, l.TLS.HTTP),
		Admin:           listener(l.Admin, l.TLS.Admin),
		MaxRequestBytes: int(l.MaxRequestBytes),
		Limits: server.Limits{
			MaxConnections:   l.MaxConnections,
			HandshakeTimeout: l.HandshakeTimeout,
			WriteTimeout:     l.WriteTimeout,
			IdleTimeout:      l.IdleTimeout,
			MaxConnectionAge: l.MaxConnectionAge,
		},
	}
}

// observe reports a finished lookup to the SLA and the board.
func (a *App) observe(ctx context.Context, table string, keys int, code lookup.Code, d time.Duration, resp *lookup.Response) {
	o := &sla.Lookup{Table: table, Keys: keys, Code: code, Duration: d, TraceID: server.TraceID(ctx)}
	if resp != nil {
		o.Groups, o.Coalesced = resp.Stats.Groups, resp.Stats.Coalesced
		o.Refused = resp.Stats.Refused
		for i := range resp.Results {
			if s := resp.Results[i].Status; s != partition.Pending {
				o.Statuses[s-partition.Found]++
			}
		}
	}
	a.recorder.Observe(o)
	a.note(ctx, o)
}
