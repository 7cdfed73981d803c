package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/coalesce"
	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/planner"
)

func TestTheReferenceIsTheDefault(t *testing.T) {
	c, err := Parse([]byte(Reference()), "reference.yaml")
	require.NoError(t, err)
	for path := range leaves(reflect.ValueOf(c).Elem()) {
		assert.Contains(t, c.origin.at, path, "the reference does not mention the key")
	}
	c.origin = nil
	assert.Equal(t, Default(), *c)
}

func TestTheExampleOfTheReferenceIsValid(t *testing.T) {
	before, after, found := strings.Cut(Reference(), "tables: []\n")
	require.True(t, found)
	example, after, found := strings.Cut(after, "\n\n")
	require.True(t, found)
	c, err := Parse([]byte(before+strings.ReplaceAll("\n"+example, "\n# ", "\n")+"\n\n"+after), "reference.yaml")
	require.NoError(t, err)
	require.Len(t, c.Tables, 1)
	assert.Equal(t, TableName{"shop", "products"}, c.Tables[0].Name)
}

func TestTheContractIsRead(t *testing.T) {
	c, err := Parse([]byte(`
cassandra:
  contact_points: [127.0.0.1]
  port: 9042
  local_dc: dc1
  local_rack: ""
  connections_per_host: 2
  username: ""
  password_file: ""
  tls: {ca_file: "", cert_file: "", key_file: "", server_name: "", verify: full}
listen:
  grpc: unix:///run/qosproxy/grpc.sock
  http: 127.0.0.1:8080
  admin: 127.0.0.1:8081
defaults:
  consistency: LOCAL_ONE
  timeout: 125ms
  speculative_retry: MIN(99p,15ms)
  hedge_budget: 2%
  grouping: cover
  max_keys: 500
  max_keys_per_group: 0
  max_rows_per_key: 1000
  max_response_bytes: 4MiB
  sla: {percentile: 95, target: 125ms, operate_at: 50%}
tables:
  - name: shop.products
    columns: [id, name, price]
  - name: '"Shop"."Features"'
    consistency: local_quorum
    quorum_reads: replicas
    hedge_budget: 0%
    grouping: owner
    max_keys: 5
    coalesce: true
    merge: off
    sla: {target: 50ms}
`), "qosproxy.yaml")
	require.NoError(t, err)
	assert.False(t, c.Cassandra.TLS.On())
	assert.Equal(t, "unix:///run/qosproxy/grpc.sock", c.Listen.GRPC)
	retry, err := hedge.ParsePolicy("MIN(99p,15ms)")
	require.NoError(t, err)

	products := c.Effective(&c.Tables[0])
	assert.Equal(t, c.Defaults, products)
	assert.Equal(t, coalesce.Auto, products.Coalesce)
	assert.Equal(t, coalesce.Always, c.Effective(&c.Tables[1]).Coalesce)
	assert.Equal(t, retry, products.SpeculativeRetry)
	assert.Equal(t, []string{"id", "name", "price"}, c.Tables[0].Columns)

	assert.Equal(t, TableName{"Shop", "Features"}, c.Tables[1].Name)
	assert.Equal(t, Settings{
		Consistency: "LOCAL_QUORUM", Consistencies: []Consistency{}, QuorumReads: QuorumReplicas, Timeout: 125 * time.Millisecond, SpeculativeRetry: retry, Grouping: planner.Owner,
		MaxKeys: 5, MaxRowsPerKey: 1000, MaxResponseBytes: 4 << 20, Coalesce: coalesce.Always, Merge: MergeOff, DCFailover: DCFailoverAuto,
		SLA: SLA{Percentile: 95, Target: 50 * time.Millisecond, OperateAt: 0.5},
	}, c.Effective(&c.Tables[1]))
}

func TestATableCanOverrideEverySetting(t *testing.T) {
	settings, overrides := fieldsOf(reflect.TypeFor[Settings]()), fieldsOf(reflect.TypeFor[Overrides]())
	assert.Equal(t, names(settings), names(overrides))
	assert.Equal(t, names(fieldsOf(reflect.TypeFor[SLA]())), names(fieldsOf(reflect.TypeFor[SLAOverrides]())))

	other := Settings{
		Consistency: "ALL", Consistencies: []Consistency{"ONE"}, Timeout: 1, SpeculativeRetry: hedge.Fixed(1), HedgeBudget: 1, Grouping: planner.Single, MaxKeys: 9,
		MaxKeysPerGroup: 9, MaxRowsPerKey: 9, MaxResponseBytes: 9, Coalesce: coalesce.Always, Merge: MergeOff, DCFailover: DCFailoverOff, SLA: SLA{Percentile: 9, Target: 9, OperateAt: 0.9},
	}
	for _, f := range settings {
		assert.NotEqual(t, reflect.ValueOf(Default().Defaults).FieldByIndex(f.index).Interface(), reflect.ValueOf(other).FieldByIndex(f.index).Interface(), f.name)
	}
	c := Default()
	assert.Equal(t, other, c.Effective(&Table{Overrides: overriding(other)}))
	assert.Equal(t, c.Defaults, c.Effective(&Table{}))
	assert.Equal(t, c.Defaults, c.Effective(nil))
}

func TestAnInheritedCapYieldsToTheLimitOfTheTable(t *testing.T) {
	c, err := Parse([]byte("defaults: {max_keys_per_group: 10}\ntables: [{name: a.b, max_keys: 5}]"), "f")
	require.NoError(t, err)
	assert.Equal(t, 5, c.Effective(&c.Tables[0]).MaxKeysPerGroup)
}

func TestAnchorsAndMergesAreFollowed(t *testing.T) {
	c, err := Parse([]byte(`
tables:
  - &products
    name: shop.products
    timeout: &short 50ms
    max_keys: 7
  - name: shop.features
    timeout: 80ms
    <<: *products
  - name: shop.stock
    sla: {target: *short}
`), "f")
	require.NoError(t, err)
	assert.Equal(t, "shop.features", c.Tables[1].Name.String(), "own keys go over merged ones")
	assert.Equal(t, 80*time.Millisecond, *c.Tables[1].Timeout)
	assert.Equal(t, 7, *c.Tables[1].MaxKeys)
	assert.Equal(t, 50*time.Millisecond, *c.Tables[2].SLA.Target)
	*c.Tables[1].MaxKeys = 8
	assert.Equal(t, 7, *c.Tables[0].MaxKeys, "a merge copies")
}

func TestKeysWithoutValueKeepTheirDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "cassandra:\n  # port: 1\n", "tables:\n", "---\n...\n", "\ufefftables: []\r\n"} {
		c, err := Parse([]byte(text), "f")
		if assert.NoError(t, err, "%q", text) {
			c.origin = nil
			assert.Equal(t, Default(), *c, "%q", text)
		}
	}
}
