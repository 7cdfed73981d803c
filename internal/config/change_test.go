package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChangesAreNamedByTheirKeys(t *testing.T) {
	const base = "tables: [{name: a.b, sla: {target: 50ms}}]"
	for text, want := range map[string][]string{
		base:                                         nil,
		"# a comment\n" + base:                       nil,
		"log: {level: debug}\n" + base:               {"log.level"},
		"listen: {grpc: ''}\n" + base:                {"listen.grpc"},
		"tables: [{name: a.b}]":                      {"tables"},
		"tables: [{name: a.c, sla: {target: 50ms}}]": {"tables"},
		"tables: [{name: a.b, sla: {target: 60ms}}]": {"tables"},
		"tables: [{name: a.b, columns: [x], sla: {target: 50ms}}]":    {"tables"},
		"tables: [{name: a.b, timeout: 125ms, sla: {target: 50ms}}]":  {"tables"},
		"tables: [{name: a.b, sla: {target: 50ms}}, {name: a.c}]":     {"tables"},
		"cassandra: {contact_points: [x], port: 1}\ntables: []":       {"cassandra.contact_points", "cassandra.port", "tables"},
		"defaults: {sla: {target: 1s}, hedge_budget: 3%}\n" + base:    {"defaults.hedge_budget", "defaults.sla.target"},
		"listen: {tls: {http: {cert_file: c, key_file: k}}}\n" + base: {"listen.tls.http.cert_file", "listen.tls.http.key_file"},
	} {
		a, err := Parse([]byte(base), "f.yaml")
		require.NoError(t, err)
		b, err := Parse([]byte(text), "f.yaml")
		require.NoError(t, err)
		assert.Equal(t, want, Changes(a, b), text)
		same := len(want) == 0 || strings.Contains(text, "timeout: 125ms") // which is what it inherits
		assert.Equal(t, same, a.Digest() == b.Digest(), text)
	}
}

func TestFilesAreThoseToLookAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
cassandra: {username: u, password_file: p, tls: {ca_file: ca, cert_file: c, key_file: k}}
listen: {tls: {grpc: {cert_file: c, key_file: k, client_ca_file: cca}}}
`), 0o600))
	c, err := Load(file, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"p", "ca", "c", "k", "cca", file}, c.Files())
	d := Default()
	assert.Empty(t, d.Files())
}
