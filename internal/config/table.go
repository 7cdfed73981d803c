package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/planner"
)

// Settings are how a table is read.
type Settings struct {
	// Consistency is the level of every read.
	Consistency Consistency `yaml:"consistency"`
	// Consistencies are further levels that a request may ask for; never nil.
	Consistencies []Consistency `yaml:"consistencies"`
	// QuorumReads says who asks a quorum of replicas, at LOCAL_QUORUM, and at QUORUM where
	// all replicas are local.
	QuorumReads QuorumReads `yaml:"quorum_reads"`
	// Timeout bounds a lookup without a deadline of its own; above 0.
	Timeout time.Duration `yaml:"timeout"`
	// SpeculativeRetry says after how long a late group is hedged.
	SpeculativeRetry hedge.Policy `yaml:"speculative_retry"`
	// HedgeBudget is the share of keys that may be hedged, 0 to 1. With 0 none is, except
	// under SpeculativeRetry ALWAYS, which asks for two reads of every key. It does not
	// limit fail-over.
	HedgeBudget Percent `yaml:"hedge_budget"`
	// Grouping is how keys become sub-queries.
	Grouping planner.Grouping `yaml:"grouping"`
	// MaxKeys is the most keys in one lookup, 1 or more.
	MaxKeys int `yaml:"max_keys"`
	// MaxKeysPerGroup is the largest group, at most MaxKeys; 0 sizes groups by what
	// statements and keys cost, as measured.
	MaxKeysPerGroup int `yaml:"max_keys_per_group"`
	// MaxRowsPerKey is the most rows of one partition that are returned, 1 or
	// more.
	MaxRowsPerKey int `yaml:"max_rows_per_key"`
	// MaxResponseBytes is the most bytes of cells in one answer, 1 or more.
	MaxResponseBytes Bytes `yaml:"max_response_bytes"`
	// Coalesce says which reads are shared by concurrent lookups of equal keys.
	Coalesce coalesce.Mode `yaml:"coalesce"`
	// Merge says whether sub-queries share statements with those of other lookups.
	Merge Merge `yaml:"merge"`
	// DCFailover says at which levels lookups go to another datacenter when the local one
	// cannot be reached.
	DCFailover DCFailover `yaml:"dc_failover"`
	// SLA is the target that lookups are measured against.
	SLA SLA `yaml:"sla"`
}

// QuorumReads says who asks a quorum of the replicas of a key.
type QuorumReads string

// Who asks a quorum: a coordinator node, or the proxy itself, which then compares the
// answers.
const (
	QuorumCoordinator QuorumReads = "coordinator"
	QuorumReplicas    QuorumReads = "replicas"
)

// Merge says whether sub-queries of different lookups for a busy host share a statement.
type Merge string

// The ways to merge.
const (
	MergeAuto Merge = "auto"
	MergeOff  Merge = "off"
)

// SLA is an SLO: Percentile percent of the lookups end within Target.
type SLA struct {
	// Percentile is above 0 and below 100.
	Percentile float64 `yaml:"percentile"`
	// Target is the target duration, above 0.
	Target time.Duration `yaml:"target"`
	// OperateAt is the share of Target at which the percentile is meant to be in
	// normal operation, above 0 and at most 1.
	OperateAt Percent `yaml:"operate_at"`
}

// Table is a table that may be read. A nil field inherits from the defaults.
type Table struct {
	// Name is the table; required and unique.
	Name TableName `yaml:"name"`
	// Columns are the columns that may be read, as Cassandra stores their names;
	// empty means all.
	Columns []string `yaml:"columns"`
	// Overrides are the settings of this table.
	Overrides `yaml:",inline"`
}

// Overrides are the Settings of one table that differ from the defaults; nil
// inherits.
type Overrides struct {
	Consistency      *Consistency      `yaml:"consistency"`
	Consistencies    *[]Consistency    `yaml:"consistencies"`
	QuorumReads      *QuorumReads      `yaml:"quorum_reads"`
	Timeout          *time.Duration    `yaml:"timeout"`
	SpeculativeRetry *hedge.Policy     `yaml:"speculative_retry"`
	HedgeBudget      *Percent          `yaml:"hedge_budget"`
	Grouping         *planner.Grouping `yaml:"grouping"`
	MaxKeys          *int              `yaml:"max_keys"`
	MaxKeysPerGroup  *int              `yaml:"max_keys_per_group"`
	MaxRowsPerKey    *int              `yaml:"max_rows_per_key"`
	MaxResponseBytes *Bytes            `yaml:"max_response_bytes"`
	Coalesce         *coalesce.Mode    `yaml:"coalesce"`
	Merge            *Merge            `yaml:"merge"`
	DCFailover       *DCFailover       `yaml:"dc_failover"`
	SLA              *SLAOverrides     `yaml:"sla"`
}

// SLAOverrides are the parts of an SLA that differ from the defaults; nil
// inherits.
type SLAOverrides struct {
	Percentile *float64       `yaml:"percentile"`
	Target     *time.Duration `yaml:"target"`
	OperateAt  *Percent       `yaml:"operate_at"`
}

// Effective returns the settings of a table: its overrides, and the defaults for all
// others. A nil t gives the defaults.
func (c *Config) Effective(t *Table) Settings {
	s := c.Defaults
	if t == nil {
		return s
	}
	override(&s.Consistency, t.Consistency)
	override(&s.Consistencies, t.Consistencies)
	override(&s.QuorumReads, t.QuorumReads)
	override(&s.Timeout, t.Timeout)
	override(&s.SpeculativeRetry, t.SpeculativeRetry)
	override(&s.HedgeBudget, t.HedgeBudget)
	override(&s.Grouping, t.Grouping)
	override(&s.MaxKeys, t.MaxKeys)
	override(&s.MaxKeysPerGroup, t.MaxKeysPerGroup)
	override(&s.MaxRowsPerKey, t.MaxRowsPerKey)
	override(&s.MaxResponseBytes, t.MaxResponseBytes)
	override(&s.Coalesce, t.Coalesce)
	override(&s.Merge, t.Merge)
	override(&s.DCFailover, t.DCFailover)
	if t.SLA != nil {
		override(&s.SLA.Percentile, t.SLA.Percentile)
		override(&s.SLA.Target, t.SLA.Target)
		override(&s.SLA.OperateAt, t.SLA.OperateAt)
	}
	// An inherited cap above the table's own limit never binds.
	if t.MaxKeysPerGroup == nil {
		s.MaxKeysPerGroup = min(s.MaxKeysPerGroup, s.MaxKeys)
	}
	return s
}

// override sets *inherited to *own, unless own is nil.
func override[T any](inherited, own *T) {
	if own != nil {
		*inherited = *own
	}
}

// overriding returns overrides of every setting.
func overriding(s Settings) Overrides {
	return Overrides{
		Consistency:      &s.Consistency,
		Consistencies:    &s.Consistencies,
		QuorumReads:      &s.QuorumReads,
		Timeout:          &s.Timeout,
		SpeculativeRetry: &s.SpeculativeRetry,
		HedgeBudget:      &s.HedgeBudget,
		Grouping:         &s.Grouping,
		MaxKeys:          &s.MaxKeys,
		MaxKeysPerGroup:  &s.MaxKeysPerGroup,
		MaxRowsPerKey:    &s.MaxRowsPerKey,
		MaxResponseBytes: &s.MaxResponseBytes,
		Coalesce:         &s.Coalesce,
		Merge:            &s.Merge,
		DCFailover:       &s.DCFailover,
		SLA:              &SLAOverrides{Percentile: &s.SLA.Percentile, Target: &s.SLA.Target, OperateAt: &s.SLA.OperateAt},
	}
}

// TableName names a table as Cassandra stores the names: case preserved and unquoted.
type TableName struct {
	Keyspace, Table string
}

// errTableName explains the form of a table name.
var errTableName = errors.New(`is not keyspace.table; a name with capitals or other characters goes in double quotes, as in '"MyKeyspace"."MyTable"'`)

// ParseTableName parses keyspace.table as CQL writes it. A name that has more than
// lower-case letters, digits and underscores must be in double quotes, in which a double
// quote is doubled: CQL would silently read a bare MyTable as mytable.
func ParseTableName(s string) (TableName, error) {
	keyspace, rest, ok := cutName(s)
	if !ok || !strings.HasPrefix(rest, ".") {
		return TableName{}, fmt.Errorf("%q %w", s, errTableName)
	}
	table, rest, ok := cutName(rest[1:])
	if !ok || rest != "" {
		return TableName{}, fmt.Errorf("%q %w", s, errTableName)
	}
	return TableName{Keyspace: keyspace, Table: table}, nil
}

// cutName cuts one name, quoted or not, off the front of s. It reports false
// when there is none.
func cutName(s string) (name, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := 0
		for end < len(s) && plainByte(s[end]) {
			end++
		}
		return s[:end], s[end:], end > 0
	}
	var b strings.Builder
	for s = s[1:]; ; {
		part, after, closed := strings.Cut(s, `"`)
		b.WriteString(part)
		if !closed {
			return "", "", false
		}
		if !strings.HasPrefix(after, `"`) {
			return b.String(), after, b.Len() > 0
		}
		b.WriteByte('"')
		s = after[1:]
	}
}

func plainByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}

// String returns keyspace.table without quotes, the form of messages, metrics
// and URLs.
func (n TableName) String() string { return n.Keyspace + "." + n.Table }

// MarshalText returns the form that ParseTableName reads.
func (n TableName) MarshalText() ([]byte, error) {
	return []byte(quoteName(n.Keyspace) + "." + quoteName(n.Table)), nil
}

// UnmarshalText reads what ParseTableName reads.
func (n *TableName) UnmarshalText(text []byte) error {
	v, err := ParseTableName(string(text))
	if err != nil {
		return err
	}
	*n = v
	return nil
}

func quoteName(s string) string {
	for i := range len(s) {
		if !plainByte(s[i]) {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
	}
	return s
}
