package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLocalDCIsOneNameOrAList(t *testing.T) {
	for text, want := range map[string]struct {
		local string
		later []string
		shown string
	}{
		"{}":                     {"", nil, `local_dc: ""`},
		`{local_dc: ""}`:         {"", nil, `local_dc: ""`},
		"{local_dc: []}":         {"", nil, `local_dc: ""`},
		"{local_dc: dc1}":        {"dc1", nil, "local_dc: dc1"},
		"{local_dc: [dc1]}":      {"dc1", nil, "local_dc: dc1"},
		"{local_dc: [dc1, dc2]}": {"dc1", []string{"dc2"}, "local_dc: [dc1, dc2]"},
		"{local_dc: [a, b, c]}":  {"a", []string{"b", "c"}, "local_dc: [a, b, c]"},
	} {
		c, err := Parse([]byte("cassandra: "+text+"\n"), "f")
		require.NoError(t, err, text)
		assert.Equal(t, want.local, c.Cassandra.LocalDC.Local(), text)
		assert.Equal(t, want.later, c.Cassandra.LocalDC.Later(), text)
		shown, err := c.YAML()
		require.NoError(t, err)
		assert.Contains(t, string(shown), "  "+want.shown+"\n", text)
	}
}
