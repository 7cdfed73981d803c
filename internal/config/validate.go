package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Validate reports every value that is out of range and every combination that
// is impossible: one *Error each, joined, with the place of the value if it
// comes from a file or the environment. Load and Parse have validated what they
// return.
func (c *Config) Validate() error { return join(c.problems()) }

// validator collects problems.
type validator struct {
	origin *origin
	found  []*Error
}

// check records a problem with the value at path unless it is fine.
func (v *validator) check(fine bool, path, format string, args ...any) {
	if !fine {
		v.found = append(v.found, v.origin.problem(path, format, args...))
	}
}

func (c *Config) problems() []*Error {
	v := &validator{origin: c.origin}
	v.cassandra(&c.Cassandra)
	v.listen(&c.Listen)
	v.settings("defaults", c.Defaults, overriding(c.Defaults))
	v.tables(c)
	v.clients(c)
	v.check(slices.Contains([]HotKeys{HotKeysHashed, HotKeysClear, HotKeysOff}, c.Admin.HotKeys), "admin.hot_keys",
		"%q is not a form of hot keys; use hashed, clear or off", c.Admin.HotKeys)
	v.admission(&c.Admission)
	v.check(slices.Contains([]LogFormat{LogJSON, LogText}, c.Log.Format), "log.format", "%q is not a format; use json or text", c.Log.Format)
	v.check(c.Shutdown.Delay >= 0, "shutdown.delay", "%s is below 0; use 0s to stop at once", c.Shutdown.Delay)
	v.positive("shutdown.timeout", c.Shutdown.Timeout, "30s")
	v.shadow(&c.Shadow)
	return v.found
}

func (v *validator) positive(path string, d time.Duration, example string) {
	v.check(d > 0, path, "%s is not above 0; use a duration such as %s", d, example)
}

func (v *validator) cassandra(c *Cassandra) {
	v.check(len(c.ContactPoints) > 0, "cassandra.contact_points", "is empty; name at least one node of the cluster")
	for i, p := range c.ContactPoints {
		v.check(contactPoint(p), fmt.Sprintf("cassandra.contact_points[%d]", i), "%q is not an address; write a host, or host:port", p)
	}
	v.check(1 <= c.Port && c.Port <= 65535, "cassandra.port", "%d is not a port; use 1 to 65535", c.Port)
	v.datacenters(c)
	v.check(c.ConnectionsPerHost > 0, "cassandra.connections_per_host", "%d is below 1; use a number such as 2", c.ConnectionsPerHost)
	v.positive("cassandra.connect_timeout", c.ConnectTimeout, "5s")
	v.positive("cassandra.refresh_interval", c.RefreshInterval, "1m")
	v.check(c.PasswordFile == "" || c.Username != "", "cassandra.password_file", "is set without a username; set cassandra.username as well")
	v.check(c.Username == "" || c.PasswordFile != "", "cassandra.username", "is set without a password_file; name the file that holds the password")
	v.certificate("cassandra.tls", c.TLS.CertFile, c.TLS.KeyFile)
	ca := c.TLS.Verify == VerifyCA
	v.check(ca || c.TLS.Verify == VerifyFull, "cassandra.tls.verify", "%q is not a way to verify; use full or ca", c.TLS.Verify)
	v.check(!ca || c.TLS.CAFile != "", "cassandra.tls.verify",
		"ca without a ca_file accepts what any public authority has signed; set ca_file as well")
	v.check(!ca || c.TLS.ServerName == "", "cassandra.tls.server_name", "is not looked at with verify: ca; remove it, or use verify: full")
}

func (v *validator) admission(a *Admission) {
	v.check(a.MinConcurrency > 0, "admission.min_concurrency", "%d is below 1; use a number of keys such as 100", a.MinConcurrency)
	v.check(a.MaxConcurrency > 0, "admission.max_concurrency", "%d is below 1; use a number of keys such as 100000", a.MaxConcurrency)
	v.check(a.MaxConcurrency <= 0 || a.MaxConcurrency >= a.MinConcurrency, "admission.max_concurrency",
		"%d is below min_concurrency, which is %d; raise it, or lower min_concurrency", a.MaxConcurrency, a.MinConcurrency)
	v.check(a.MaxMemory >= 0, "admission.max_memory", "%s is below 0; use a size such as 256MiB, or 0 for half of the memory limit", a.MaxMemory)
	last, lastName := 0.0, ""
	for _, step := range []struct {
		name string
		at   float64
	}{{"hedges", a.Ladder.Hedges}, {"optional", a.Ladder.Optional}, {"batch", a.Ladder.Batch}, {"standard", a.Ladder.Standard}} {
		path := "admission.ladder." + step.name
		v.check(step.at >= 0, path, "%v is below 0; use a burn rate such as 2, or 0 for never", step.at)
		v.check(step.at <= 0 || step.at >= last, path,
			"%v is below %s, which is %v and an earlier step; raise it, or use 0 for never", step.at, lastName, last)
		if step.at > 0 {
			last, lastName = step.at, step.name
		}
	}
}

// certificate checks that a certificate and its key are set together.
func (v *validator) certificate(path, cert, key string) {
	v.check(cert == "" || key != "", path+".cert_file", "is set without a key_file; name the file of its private key")
	v.check(key == "" || cert != "", path+".key_file", "is set without a cert_file; name the file of its certificate")
}

func (v *validator) tables(c *Config) {
	first := map[TableName]int{}
	for i := range c.Tables {
		t := &c.Tables[i]
		path := fmt.Sprintf("tables[%d]", i)
		v.settings(path, c.Effective(t), t.Overrides)
		v.columns(path+".columns", t.Columns)
		if t.Name.Keyspace == "" || t.Name.Table == "" {
			v.check(false, path+".name", "is missing; write name: keyspace.table")
			continue
		}
		if before, twice := first[t.Name]; twice {
			v.check(false, path+".name", "%s is listed twice, here and as tables[%d]; merge the two", t.Name, before)
		} else {
			first[t.Name] = i
		}
	}
}

func (v *validator) columns(path string, columns []string) {
	for i, name := range columns {
		at := fmt.Sprintf("%s[%d]", path, i)
		v.check(name != "", at, "is empty; name a column or remove it")
		v.check(name == "" || !slices.Contains(columns[:i], name), at, "%q is listed twice; remove one", name)
	}
}

// settings checks the settings that are given. What a table inherits is checked
// in the defaults.
func (v *validator) settings(path string, s Settings, given Overrides) {
	v.given(given.Timeout != nil, s.Timeout > 0, path+".timeout", "%s is not above 0; use a duration such as 50ms", s.Timeout)
	v.given(given.Consistency != nil, slices.Contains(consistencyLevels, s.Consistency), path+".consistency",
		"%q is not a consistency level of reads; use LOCAL_ONE or LOCAL_QUORUM", s.Consistency)
	if given.Consistencies != nil {
		for i, level := range s.Consistencies {
			at := fmt.Sprintf("%s.consistencies[%d]", path, i)
			v.check(slices.Contains(consistencyLevels, level), at, "%q is not a consistency level of reads; use LOCAL_ONE or LOCAL_QUORUM", level)
			v.check(!slices.Contains(s.Consistencies[:i], level), at, "%s is listed twice; remove one", level)
		}
	}
	v.given(given.QuorumReads != nil, slices.Contains([]QuorumReads{QuorumCoordinator, QuorumReplicas}, s.QuorumReads), path+".quorum_reads",
		"%q does not say who asks a quorum; use coordinator or replicas", s.QuorumReads)
	v.given(given.HedgeBudget != nil, 0 <= s.HedgeBudget && s.HedgeBudget <= 1, path+".hedge_budget",
		"%s is not a share of the keys; use 0%% to 100%%", s.HedgeBudget)
	v.given(given.MaxKeys != nil, s.MaxKeys > 0, path+".max_keys", "%d is below 1; use a number such as 500", s.MaxKeys)
	v.given(given.MaxKeysPerGroup != nil, s.MaxKeysPerGroup >= 0, path+".max_keys_per_group",
		"%d is below 0; use 0 to size groups by what statements and keys cost", s.MaxKeysPerGroup)
	v.given(given.MaxKeysPerGroup != nil, s.MaxKeysPerGroup <= s.MaxKeys || s.MaxKeys <= 0, path+".max_keys_per_group",
		"%d is above max_keys, which is %d, so no group can be that large; lower it, or raise max_keys", s.MaxKeysPerGroup, s.MaxKeys)
	v.given(given.MaxRowsPerKey != nil, s.MaxRowsPerKey > 0, path+".max_rows_per_key", "%d is below 1; use a number such as 1000", s.MaxRowsPerKey)
	v.given(given.MaxResponseBytes != nil, s.MaxResponseBytes > 0, path+".max_response_bytes",
		"%s is below 1; use a size such as 4MiB", s.MaxResponseBytes)
	v.given(given.Merge != nil, slices.Contains([]Merge{MergeAuto, MergeOff}, s.Merge), path+".merge", "%q is not a way to merge; use auto or off", s.Merge)
	v.given(given.DCFailover != nil, slices.Contains([]DCFailover{DCFailoverAuto, DCFailoverQuorum, DCFailoverOff}, s.DCFailover), path+".dc_failover",
		"%q does not say which levels fail over; use auto, quorum or off", s.DCFailover)
	if given.SLA != nil {
		v.sla(path+".sla", s.SLA, *given.SLA)
	}
}

func (v *validator) sla(path string, s SLA, given SLAOverrides) {
	v.given(given.Percentile != nil, 0 < s.Percentile && s.Percentile < 100, path+".percentile",
		"%v is not above 0 and below 100; use a percentile such as 95 or 99.9", s.Percentile)
	v.given(given.Target != nil, s.Target > 0, path+".target", "%s is not above 0; use a duration such as 125ms", s.Target)
	v.given(given.OperateAt != nil, 0 < s.OperateAt && s.OperateAt <= 1, path+".operate_at",
		"%s is not a share of the target; use a percentage above 0%% and up to 100%%", s.OperateAt)
}

// given checks a setting if it is given.
func (v *validator) given(given, fine bool, path, format string, args ...any) {
	v.check(!given || fine, path, format, args...)
}

// contactPoint reports whether p is a host, or a host and a port.
func contactPoint(p string) bool {
	if strings.TrimSpace(p) == "" || strings.ContainsAny(p, " \t\r\n/,@") {
		return false
	}
	host, port, ok := splitHostPort(p)
	if !ok {
		return strings.Count(p, ":") != 1 && !strings.ContainsAny(p, "[]") // a bare name, IPv4 or IPv6 address
	}
	return host != "" && port > 0
}
