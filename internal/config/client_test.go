package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/identity"
)

func TestTheClientOfTheReferenceIsValid(t *testing.T) {
	text := strings.Replace(Reference(), "tables: []\n# tables:\n", "tables:\n", 1)
	before, example, found := strings.Cut(text, "clients: []\n# clients:\n")
	require.True(t, found)
	text = before + "clients:\n" + example
	text = strings.ReplaceAll(text, "\n#   ", "\n  ")
	c, err := build([]byte(text), "reference.yaml", []string{
		"QOSPROXY_LISTEN_GRPC=unix:///run/grpc.sock",
		"QOSPROXY_LISTEN_TLS_HTTP_CERT_FILE=a", "QOSPROXY_LISTEN_TLS_HTTP_KEY_FILE=b", "QOSPROXY_LISTEN_TLS_HTTP_CLIENT_CA_FILE=c",
	})
	require.NoError(t, err)
	require.Len(t, c.Clients, 1)
	assert.Equal(t, identity.Client{
		Name: "checkout", Priority: identity.Interactive, KeysPerSecond: 20000, BurstKeys: 20000, MaxConcurrent: 100,
		Access: identity.NewAccess([]identity.Grant{{Keyspace: "shop", Table: "products", Columns: []string{"id", "name"}}}),
	}, c.Share(&c.Clients[0]))
	assert.NotEmpty(t, c.Clients[0].SPIFFE)
	assert.NotEmpty(t, c.Clients[0].DNSSAN)
}

func TestTheShareOfAClientIsCompleted(t *testing.T) {
	const tables = "tables: [{name: a.b, max_keys: 700}, {name: a.c}]\nclients: [{name: x, token_file: f, tables: [{name: a.b}, {name: a.c}]"
	for more, want := range map[string]identity.Client{
		"":                      {Priority: identity.Standard},
		", keys_per_second: 10": {Priority: identity.Standard, KeysPerSecond: 10, BurstKeys: 700},
		", keys_per_second: 999.5, priority: BATCH": {Priority: identity.Batch, KeysPerSecond: 999.5, BurstKeys: 1000},
		", keys_per_second: 10, burst_keys: 3":      {Priority: identity.Standard, KeysPerSecond: 10, BurstKeys: 3},
	} {
		c, err := Parse([]byte(tables+more+"}]"), "f")
		require.NoError(t, err)
		got := c.Share(&c.Clients[0])
		got.Name, got.Access = "", nil
		assert.Equal(t, want, got, more)
	}
}

func TestAMarkOfADoorThatIsOffIsNone(t *testing.T) {
	const clients = "\ntables: [{name: a.b}]\nclients: [{name: x, spiffe: [spiffe://a/b], tables: [{name: a.b}]}]"
	_, err := Parse([]byte("listen: {http: '', tls: {http: {cert_file: a, key_file: b, client_ca_file: c}}}"+clients), "f")
	require.ErrorContains(t, err, "f:3:21: clients[0].spiffe: needs client certificates")
	_, err = Parse([]byte("listen: {tls: {http: {cert_file: a, key_file: b, client_ca_file: c}}}"+clients), "f")
	require.NoError(t, err)
}

func TestTokenFilesAreChecked(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/good", "0123456789abcdef\n")
	write(t, dir+"/bad", "# mine\nshort-secret\n")
	write(t, dir+"/f.yaml", "tables: [{name: a.b}]\nclients:\n  - {name: x, token_file: "+dir+"/good, tables: [{name: a.b}]}\n"+
		"  - {name: y, token_file: "+dir+"/bad, tables: [{name: a.b}]}\n  - {name: z, token_file: "+dir+"/none, tables: [{name: a.b}]}\n")
	c, err := Load(dir+"/f.yaml", nil)
	require.NoError(t, err)
	err = c.CheckFiles()
	require.ErrorContains(t, err, "f.yaml:4:27: clients[1].token_file: "+dir+"/bad:2: the token is shorter than 16 characters")
	require.ErrorContains(t, err, "f.yaml:5:27: clients[2].token_file")
	assert.NotContains(t, err.Error(), "clients[0]")
	assert.NotContains(t, Explain(err), "short-secret")
}

func TestATokenInTheFileIsNotShown(t *testing.T) {
	_, err := Parse([]byte("tables: [{name: a.b}]\nclients: [{name: x, token: hunter2, tables: [{name: a.b}]}]\n"), "f")
	require.ErrorContains(t, err, "token_file")
	assert.NotContains(t, Explain(err), "hunter2")
}
