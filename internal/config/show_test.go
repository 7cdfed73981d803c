package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/planner"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestShownIsWhatIsInForce(t *testing.T) {
	c, err := Parse([]byte("defaults: {timeout: 80ms}\ntables: [{name: shop.products, max_keys: 9}]\n"), "f")
	require.NoError(t, err)
	text, err := c.YAML()
	require.NoError(t, err)
	_, tables, _ := strings.Cut(string(text), "\ntables:\n")
	tables, _, _ = strings.Cut(tables, "\nclients:")
	assert.Equal(t, `  - name: shop.products
    columns: []
    consistency: LOCAL_ONE
    consistencies: []
    quorum_reads: coordinator
    timeout: 80ms
    speculative_retry: 15ms
    hedge_budget: 2%
    grouping: cover
    max_keys: 9
    max_keys_per_group: 0
    max_rows_per_key: 1000
    max_response_bytes: 4MiB
    coalesce: auto
    merge: auto
    dc_failover: auto
    sla:
      percentile: 95
      target: 80ms
      operate_at: 50%`, strings.Replace(tables, "target: 125ms", "target: 80ms", 1))
}

// TestShownIsReadBack writes configurations with arbitrary values, and reads
// them back.
func TestShownIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		for path, v := range leaves(reflect.ValueOf(&c).Elem()) {
			if v.Type() == reflect.TypeFor[string]() && !strings.HasPrefix(path, "listen.") && path != "log.format" && path != "admin.hot_keys" {
				v.SetString(rapid.String().Draw(t, path))
			}
		}
		c.Cassandra.ContactPoints = rapid.SliceOf(rapid.String()).Draw(t, "contact points")
		c.Cassandra.LocalDC = rapid.Custom(func(t *rapid.T) Datacenters {
			return rapid.SliceOf(rapid.StringN(1, 9, -1)).Draw(t, "names")
		}).Draw(t, "local_dc")
		c.Defaults = drawSettings(t)
		for i := range rapid.IntRange(0, 3).Draw(t, "tables") {
			table := Table{Name: TableName{rapid.StringN(1, 9, -1).Draw(t, "keyspace"), string(rune('a' + i))}}
			table.Columns = rapid.SliceOf(rapid.String()).Draw(t, "columns")
			if rapid.Bool().Draw(t, "overrides") {
				table.Overrides = overriding(drawSettings(t))
			}
			c.Tables = append(c.Tables, table)
		}
		for range rapid.IntRange(0, 3).Draw(t, "clients") {
			c.Clients = append(c.Clients, drawClient(t))
		}
		text, err := c.YAML()
		require.NoError(t, err)

		// The values are arbitrary, so they are not validated.
		got := Default()
		d := &decoder{origin: &origin{at: map[string]place{}}, maxBytes: maxFileBytes, maxNodes: maxNodes}
		d.document(reflect.ValueOf(&got).Elem(), text)
		require.NoError(t, join(d.problems), "%s", text)
		require.Len(t, got.Tables, len(c.Tables))
		for i := range c.Tables {
			assert.Equal(t, c.Effective(&c.Tables[i]), got.Effective(&got.Tables[i]))
			c.Tables[i].Overrides, got.Tables[i].Overrides = Overrides{}, Overrides{}
		}
		require.Len(t, got.Clients, len(c.Clients))
		for i := range c.Clients {
			assert.Equal(t, c.Share(&c.Clients[i]), got.Share(&got.Clients[i]))
			c.Clients[i].Priority, c.Clients[i].BurstKeys, got.Clients[i].Priority, got.Clients[i].BurstKeys = nil, 0, nil, 0
		}
		assert.Equal(t, c, got)
	})
}

func drawClient(t *rapid.T) Client {
	c := Client{
		Name:          rapid.String().Draw(t, "name"),
		SPIFFE:        rapid.SliceOf(rapid.String()).Draw(t, "spiffe"),
		DNSSAN:        rapid.SliceOf(rapid.String()).Draw(t, "dns_san"),
		TokenFile:     rapid.String().Draw(t, "token_file"),
		SocketHeader:  rapid.String().Draw(t, "socket_header"),
		KeysPerSecond: rapid.SampledFrom([]float64{0, 0.5, 1e6, 3e9, 1e21}).Draw(t, "keys_per_second"),
		BurstKeys:     rapid.IntRange(0, 1e9).Draw(t, "burst_keys"),
		MaxConcurrent: rapid.Int().Draw(t, "max_concurrent"),
		Tables:        []ClientTable{},
	}
	if rapid.Bool().Draw(t, "priority given") {
		p := rapid.SampledFrom([]identity.Priority{identity.Interactive, identity.Standard, identity.Batch}).Draw(t, "priority")
		c.Priority = &p
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "client tables") {
		c.Tables = append(c.Tables, ClientTable{TableName{"ks", string(rune('a' + i))}, rapid.SliceOf(rapid.String()).Draw(t, "columns")})
	}
	return c
}

func drawSettings(t *rapid.T) Settings {
	return Settings{
		Consistency:      rapid.SampledFrom(consistencyLevels).Draw(t, "consistency"),
		Consistencies:    rapid.SliceOfDistinct(rapid.SampledFrom(consistencyLevels), rapid.ID).Draw(t, "consistencies"),
		QuorumReads:      rapid.SampledFrom([]QuorumReads{QuorumCoordinator, QuorumReplicas}).Draw(t, "quorum reads"),
		Timeout:          time.Duration(rapid.Int64().Draw(t, "timeout")),
		SpeculativeRetry: hedge.Fixed(time.Duration(rapid.IntRange(0, 5000).Draw(t, "retry")) * time.Millisecond),
		HedgeBudget:      Percent(rapid.IntRange(0, 100).Draw(t, "budget")) / 100,
		Grouping:         rapid.SampledFrom([]planner.Grouping{planner.Cover, planner.Owner, planner.Range, planner.Single}).Draw(t, "grouping"),
		MaxKeys:          rapid.IntRange(9, 1e6).Draw(t, "keys"),
		MaxKeysPerGroup:  rapid.IntRange(0, 9).Draw(t, "group"),
		MaxRowsPerKey:    rapid.Int().Draw(t, "rows"),
		MaxResponseBytes: Bytes(rapid.Int32().Draw(t, "bytes")),
		Coalesce:         rapid.SampledFrom([]coalesce.Mode{coalesce.Auto, coalesce.Never, coalesce.Always}).Draw(t, "coalesce"),
		DCFailover:       rapid.SampledFrom([]DCFailover{DCFailoverAuto, DCFailoverQuorum, DCFailoverOff}).Draw(t, "dc failover"),
		Merge:            rapid.SampledFrom([]Merge{MergeAuto, MergeOff}).Draw(t, "merge"),
		SLA: SLA{
			Percentile: float64(rapid.IntRange(0, 1000).Draw(t, "percentile")) / 10,
			Target:     time.Duration(rapid.Int64().Draw(t, "target")),
			OperateAt:  Percent(rapid.IntRange(0, 100).Draw(t, "operate at")) / 100,
		},
	}
}

func TestFilesAreChecked(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/ca.pem", "x")
	write(t, dir+"/f.yaml", `
cassandra:
  username: app
  password_file: `+dir+`/none
  tls: {ca_file: `+dir+`/ca.pem}
listen:
  grpc: unix://`+dir+`/grpc.sock
  http: unix://`+dir+`/none/http.sock
  tls:
    grpc: {cert_file: `+dir+`, key_file: `+dir+`/ca.pem}
`)
	c, err := Load(dir+"/f.yaml", nil)
	require.NoError(t, err)
	require.EqualError(t, c.CheckFiles(), strings.ReplaceAll(`DIR/f.yaml:4:18: cassandra.password_file: open DIR/none: no such file or directory; name a file that this process may read
DIR/f.yaml:8:9: listen.http: there is no folder DIR/none for the socket; create it or mount it
DIR/f.yaml:10:23: listen.tls.grpc.cert_file: read DIR: is a folder; name a file that this process may read`, "DIR", dir))

	c = &Config{}
	require.NoError(t, c.CheckFiles())
}
