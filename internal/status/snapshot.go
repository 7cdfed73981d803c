// Package status decides what an operator sees of a running proxy at one moment: tables against
// their targets, hosts, clients and the latest errors. It decides what is counted for that, and
// what is shown of an error: never a key or a secret.
package status

import "time"

// Snapshot is the state of a proxy at one moment. It encodes as JSON. Counts are since the
// start of the process: two snapshots give the rate in between.
type Snapshot struct {
	// Time is that moment; Started is when the process began.
	Time    time.Time `json:"time"`
	Started time.Time `json:"started"`
	// Version is the version of the build.
	Version string `json:"version,omitempty"`
	// Ready is whether lookups are accepted, and Reason why not.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// Total counts all lookups.
	Total Count `json:"total"`
	// Tables are those of the configuration, and others with lookups in the last minutes;
	// Clients are those with lookups in the last minutes. Both are sorted by name.
	Tables  []Table  `json:"tables"`
	Clients []Client `json:"clients"`
	// Ring is nil until the cluster is known.
	Ring *Ring `json:"ring,omitempty"`
	// Hosts are the hosts of the ring, in its order.
	Hosts []Host `json:"hosts"`
	// Admission is nil if nothing is ever refused.
	Admission *Admission `json:"admission,omitempty"`
	// Errors are the latest problems, latest first.
	Errors []Error `json:"errors"`
	// Config is the configuration in use.
	Config Config `json:"config"`
}

// Count counts lookups since the start.
type Count struct {
	// Lookups is the number of lookups that ended, Keys that of the keys they asked for, and
	// Failed that of the lookups that were not answered as asked: all but those with the codes
	// OK, PARTIAL_OK and CANCELLED.
	Lookups int64 `json:"lookups"`
	Keys    int64 `json:"keys"`
	Failed  int64 `json:"failed"`
}

// Table is a table and how well its SLO is met.
type Table struct {
	// Name is keyspace.table; unknown counts lookups of tables that may not be read.
	Name string `json:"name"`
	Count
	// SLO is nil for a table without one.
	SLO *SLO `json:"promise,omitempty"`
	// Level is the brown-out level, 0 to 4, and GivesUp what its last step switches off.
	Level   int    `json:"rung,omitempty"`
	GivesUp string `json:"gives_up,omitempty"`
	Cost
	// QuorumReads is nil for a table whose replicas were never to be asked for their own data.
	QuorumReads *QuorumReads `json:"quorum_reads,omitempty"`
}

// QuorumReads is the outcome of the keys of a table with quorum_reads: replicas.
type QuorumReads struct {
	// Keys is how many keys ended with each outcome.
	Keys map[string]uint64 `json:"keys"`
	// Again is the recent share of the keys asked of their replicas that were read again
	// through a coordinator, 0 to 1.
	Again float64 `json:"read_again_ratio"`
	// Closed is why no host is asked for its own data at the moment; empty if hosts are asked.
	Closed string `json:"closed,omitempty"`
}

// Cost is what reads of a table cost, as learned from answers, and the size of groups that
// follows from it; all 0 until enough answers were seen.
type Cost struct {
	// StatementCostMS is the cost of a statement without its keys, KeyCostMS that of each key.
	StatementCostMS float64 `json:"statement_cost_ms,omitempty"`
	KeyCostMS       float64 `json:"key_cost_ms,omitempty"`
	// GroupSize is how many keys a group may have if max_keys_per_group is not set.
	GroupSize int `json:"group_size,omitempty"`
}

// SLO is the SLA of a table and how well it is met. Times are in milliseconds.
type SLO struct {
	// Percentile of the lookups are to end within TargetMS; in normal operation that percentile
	// should be at OperateAtMS.
	Percentile  float64 `json:"percentile"`
	TargetMS    float64 `json:"target_ms"`
	OperateAtMS float64 `json:"operate_at_ms"`
	// Now is the last 10 to 20 seconds, Minute and FiveMinutes are what their names say.
	Now         Window `json:"now"`
	Minute      Window `json:"1m"`
	FiveMinutes Window `json:"5m"`
	// History are the last five minutes in steps of 10 seconds, the oldest first and the
	// current one last; only if requested.
	History []Step `json:"history,omitempty"`
}

// Window summarizes the lookups of a table in a period. Times are in milliseconds, 0 without a
// lookup.
type Window struct {
	Count  int64   `json:"count"`
	P50MS  float64 `json:"p50_ms"`
	P95MS  float64 `json:"p95_ms"`
	P99MS  float64 `json:"p99_ms"`
	P999MS float64 `json:"p999_ms"`
	MaxMS  float64 `json:"max_ms"`
	// Ratio is the share that met the SLO, 0 to 1; 1 without a lookup. BurnRate is the share
	// that did not, over the share that may not.
	Ratio    float64 `json:"ratio"`
	BurnRate float64 `json:"burn_rate"`
}

// Step is a window with the time at which it began.
type Step struct {
	Time time.Time `json:"time"`
	Window
}

// Client is a client of the configuration; anonymous is everybody if there are none.
type Client struct {
	Name string `json:"name"`
	Count
}

// Ring is the cluster as a whole.
type Ring struct {
	LocalDC string `json:"local_dc,omitempty"`
	// Datacenters are those of the fail-over order; empty if there is only one.
	Datacenters []Datacenter `json:"datacenters,omitempty"`
	Keyspaces   []string     `json:"keyspaces"`
	// Refreshed is when the ring was last known to be current.
	Refreshed time.Time `json:"refreshed"`
}

// Datacenter is a datacenter of the fail-over order.
type Datacenter struct {
	Name string `json:"dc"`
	// Active is set for the datacenter that keys are asked of.
	Active bool `json:"active"`
	// Hosts is the number of hosts that own tokens, Lost how many of them cannot be asked.
	Hosts int `json:"hosts"`
	Lost  int `json:"lost"`
	// InflightKeys is the number of keys outstanding, of at most MostKeys; Keys is the number
	// sent there instead of to the local datacenter. All are 0 for that one.
	InflightKeys int   `json:"inflight_keys,omitempty"`
	MostKeys     int   `json:"most_keys,omitempty"`
	Keys         int64 `json:"failover_keys,omitempty"`
}

// HostState is the state of a host, in one word.
type HostState string

// The states of a host. Remote and Tokenless hosts hold no data for this proxy.
const (
	// Healthy hosts are chosen by price alone.
	Healthy HostState = "healthy"
	// SlowStart hosts were ejected, and are chosen less at first.
	SlowStart HostState = "slow_start"
	// Probing hosts were suspect or ejected, and are asked for a few keys at a time.
	Probing HostState = "probing"
	// Suspect hosts have left an attempt unanswered for too long.
	Suspect HostState = "suspect"
	// Ejected hosts failed again and again.
	Ejected HostState = "ejected"
	// Remote hosts are in another datacenter.
	Remote HostState = "remote"
	// Tokenless hosts own no part of the ring.
	Tokenless HostState = "no_tokens"
)

// Host is a host of the ring. Times are in milliseconds.
type Host struct {
	// ID is the host id, a UUID that survives a change of address.
	ID      string `json:"host_id,omitempty"`
	Address string `json:"address"`
	DC      string `json:"dc"`
	Rack    string `json:"rack"`
	Release string `json:"release,omitempty"`
	// Share is the share of the token ring, before replication; all shares sum to 1.
	Share float64 `json:"share"`
	// State is the state of the host.
	State HostState `json:"state"`
	// Price is the price of the host in the next plan, relative to 1 for a usual idle one; 0
	// for a host that holds no data for this proxy.
	Price float64 `json:"price"`
	// InflightKeys and InflightSubQueries are outstanding.
	InflightKeys       int `json:"inflight_keys"`
	InflightSubQueries int `json:"inflight_sub_queries"`
	// LatencyMS is the moving average of its answer times, OldestMS how long the oldest
	// sub-query has been outstanding; 0 for none.
	LatencyMS float64 `json:"latency_ms"`
	OldestMS  float64 `json:"oldest_ms"`
	// Failures is the number since its last answer; ProbeInMS is how long until it may be
	// probed, 0 if it need not be.
	Failures  int     `json:"failures"`
	ProbeInMS float64 `json:"probe_in_ms"`
	// SubQueries were sent to it since the proxy knows it, Hedges of them because another host
	// was late; HedgedAway were hedged because this one was.
	SubQueries int64 `json:"sub_queries"`
	Hedges     int64 `json:"hedges"`
	HedgedAway int64 `json:"hedged_away"`
	// Statements are in-flight; Waiting is how many sub-queries wait to be merged into one.
	Statements int `json:"statements"`
	Waiting    int `json:"waiting"`
	// StatementsSent is how many were sent to it since the proxy knows it, StatementKeys the
	// keys in all of them; statements of tables with merge off are not counted.
	StatementsSent int64 `json:"statements_sent"`
	StatementKeys  int64 `json:"statement_keys"`
}

// Admission is how many keys are admitted.
type Admission struct {
	Enabled bool `json:"enabled"`
	// LimitKeys may be in-flight, InflightKeys are.
	LimitKeys    int `json:"limit_keys"`
	InflightKeys int `json:"inflight_keys"`
}

// Config is the configuration in use.
type Config struct {
	File string `json:"file,omitempty"`
	// Hash is equal for equal configurations.
	Hash   string    `json:"hash,omitempty"`
	Loaded time.Time `json:"loaded"`
	// NeedRestart are the keys that take effect only after a restart.
	NeedRestart []string `json:"need_restart,omitempty"`
	// Error is why the current files are not in use.
	Error string `json:"error,omitempty"`
}
