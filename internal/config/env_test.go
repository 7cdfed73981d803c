package config

import (
	"io/fs"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/hedge"
	"github.com/qosproxy/qosproxy/internal/planner"
)

func TestVariablesGoOverTheFile(t *testing.T) {
	file := t.TempDir() + "/qosproxy.yaml"
	write(t, file, "defaults: {timeout: 50ms, max_keys: 7}\ntables: [{name: shop.products}]\nlog: {level: debug}\n")
	c, err := Load(file, []string{
		"PATH=/bin", "QOSPROXY", "QOS=1",
		"QOSPROXY_CASSANDRA_CONTACT_POINTS=a, b:9043 ,",
		"QOSPROXY_CASSANDRA_TLS_CA_FILE=/etc/ca=1.pem",
		"QOSPROXY_CASSANDRA_LOCAL_DC=dc1, dc2",
		"QOSPROXY_DEFAULTS_DC_FAILOVER=off",
		"QOSPROXY_DEFAULTS_CONSISTENCIES=local_quorum, ONE",
		"QOSPROXY_CASSANDRA_LOCAL_RACK=",
		"QOSPROXY_LISTEN_HTTP=",
		"QOSPROXY_LISTEN_SOCKET_MODE=0600",
		"QOSPROXY_LISTEN_PPROF=true",
		"QOSPROXY_DEFAULTS_TIMEOUT=60ms",
		"QOSPROXY_DEFAULTS_SPECULATIVE_RETRY=99p",
		"QOSPROXY_DEFAULTS_HEDGE_BUDGET=3%",
		"QOSPROXY_DEFAULTS_GROUPING=owner",
		"QOSPROXY_DEFAULTS_SLA_PERCENTILE=99.5",
		"QOSPROXY_DEFAULTS_SLA_TARGET=40ms",
		"QOSPROXY_DEFAULTS_MAX_RESPONSE_BYTES=1MiB",
		"QOSPROXY_LOG_LEVEL=warn",
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b:9043"}, c.Cassandra.ContactPoints)
	assert.Equal(t, "/etc/ca=1.pem", c.Cassandra.TLS.CAFile)
	assert.Equal(t, Datacenters{"dc1", "dc2"}, c.Cassandra.LocalDC)
	assert.Equal(t, DCFailoverOff, c.Defaults.DCFailover)
	assert.Equal(t, []Consistency{"LOCAL_QUORUM", "ONE"}, c.Defaults.Consistencies)
	assert.True(t, c.Cassandra.TLS.On())
	assert.Empty(t, c.Listen.HTTP)
	assert.Equal(t, fs.FileMode(0o600), c.Listen.SocketMode)
	assert.True(t, c.Listen.Pprof)
	assert.Equal(t, slog.LevelWarn, c.Log.Level)
	s := c.Effective(&c.Tables[0])
	assert.Equal(t, 60*time.Millisecond, s.Timeout, "tables inherit what a variable says of the defaults")
	assert.Equal(t, 7, s.MaxKeys)
	assert.Equal(t, "99p", s.SpeculativeRetry.String())
	assert.InDelta(t, 0.03, float64(s.HedgeBudget), 1e-12)
	assert.Equal(t, planner.Owner, s.Grouping)
	assert.Equal(t, SLA{99.5, 40 * time.Millisecond, 0.5}, s.SLA)
	assert.Equal(t, Bytes(1<<20), s.MaxResponseBytes)
}

func TestProblemsOfVariablesNameThem(t *testing.T) {
	for entry, want := range map[string]string{
		"QOSPROXY_DEFAULTS_TIMOUT=50ms":        "QOSPROXY_DEFAULTS_TIMOUT: unknown variable, did you mean QOSPROXY_DEFAULTS_TIMEOUT?",
		"QOSPROXY_DEFAULTS_CONSISTENCIES=MOST": `QOSPROXY_DEFAULTS_CONSISTENCIES: defaults.consistencies: "MOST" is not a consistency level; use LOCAL_ONE, NODE_LOCAL, LOCAL_QUORUM, ONE, TWO, THREE, QUORUM, EACH_QUORUM, ALL`,
		"QOSPROXY_DEFAULTS_TIMEOUT=50":         `QOSPROXY_DEFAULTS_TIMEOUT: defaults.timeout: "50" has no unit; write 50ms or 50s`,
		"QOSPROXY_DEFAULTS_TIMEOUT=":           `QOSPROXY_DEFAULTS_TIMEOUT: defaults.timeout: "" is not a duration; write 15ms, 2s or 1m30s`,
		"QOSPROXY_DEFAULTS_TIMEOUT=0s":         "QOSPROXY_DEFAULTS_TIMEOUT: defaults.timeout: 0s is not above 0; use a duration such as 50ms",
		"QOSPROXY_CASSANDRA_CONTACT_POINTS":    "QOSPROXY_CASSANDRA_CONTACT_POINTS: cassandra.contact_points: is empty; name at least one node of the cluster",
		"QOSPROXY_CASSANDRA_PASSWORD=hush":     "QOSPROXY_CASSANDRA_PASSWORD: a password is not read from the environment; write it to a file and set QOSPROXY_CASSANDRA_PASSWORD_FILE to the path",
		"QOSPROXY_TABLES=shop.products":        "QOSPROXY_TABLES: tables can be listed only in the configuration file; unset the variable",
		"QOSPROXY_TABLES_0_NAME=a.b":           "QOSPROXY_TABLES_0_NAME: tables can be listed only in the configuration file; unset the variable",
		"QOSPROXY_BANANAS_PER_POUND=x":         "QOSPROXY_BANANAS_PER_POUND: unknown variable; unset it, or see 'qosproxy config show' for all keys",
	} {
		_, err := Load("", []string{entry})
		assert.EqualError(t, err, want)
	}
}

func TestVariablesOfKubernetesAreNotOurs(t *testing.T) {
	c, err := Load("", []string{
		"QOSPROXY_SERVICE_HOST=10.0.0.1", "QOSPROXY_SERVICE_PORT=50051", "QOSPROXY_SERVICE_PORT_GRPC=50051",
		"QOSPROXY_PORT=tcp://10.0.0.1:50051", "QOSPROXY_PORT_50051_TCP=tcp://10.0.0.1:50051", "QOSPROXY_PORT_50051_TCP_ADDR=10.0.0.1",
		"QOSPROXY_PORT_50051_TCP_PROTO=tcp", "QOSPROXY_ADMIN_SERVICE_HOST=10.0.0.2",
		"QOSPROXY_CASSANDRA_PORT=tcp://10.0.0.3:9042", "QOSPROXY_CASSANDRA_PORT_9042_TCP_PORT=9042",
	})
	require.NoError(t, err)
	assert.Equal(t, 9042, c.Cassandra.Port)
	_, err = Load("", []string{"QOSPROXY_CASANDRA_PORT=9043"})
	require.ErrorContains(t, err, "did you mean QOSPROXY_CASSANDRA_PORT?")
}

func TestEveryKeyHasAVariableOfItsOwn(t *testing.T) {
	c := Default()
	seen := map[string]string{}
	for path := range leaves(reflect.ValueOf(&c).Elem()) {
		name := Variable(path)
		assert.Empty(t, seen[name], "%s is %s too", name, path)
		seen[name] = path
		assert.False(t, fromKubernetes(name, "1"), "%s", name)
	}
	assert.Equal(t, "defaults.sla.target", seen["QOSPROXY_DEFAULTS_SLA_TARGET"])
	assert.Equal(t, "listen.tls.grpc.client_ca_file", seen["QOSPROXY_LISTEN_TLS_GRPC_CLIENT_CA_FILE"])
	assert.NotContains(t, seen, "QOSPROXY_TABLES")
	assert.Equal(t, hedge.Fixed(15*time.Millisecond), c.Defaults.SpeculativeRetry)
}

func TestAMistakeInAListOfTheEnvironmentIsNotInTheFile(t *testing.T) {
	file := t.TempDir() + "/qosproxy.yaml"
	write(t, file, "cassandra: {contact_points: [10.0.0.1]}\n")
	_, err := Load(file, []string{"QOSPROXY_CASSANDRA_CONTACT_POINTS=a/b"})
	require.ErrorContains(t, err, "QOSPROXY_CASSANDRA_CONTACT_POINTS: ")
	assert.NotContains(t, err.Error(), file)
}
