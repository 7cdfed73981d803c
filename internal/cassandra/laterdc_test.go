package cassandra

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHostsOfListedDatacentersAreAsked(t *testing.T) {
	c := Config{LaterDCs: []string{"dc2", "dc3"}}
	for dc, want := range map[string]bool{"dc1": true, "dc2": true, "dc3": true, "dc4": false, "": false} {
		assert.Equal(t, want, c.asks("dc1", dc), dc)
	}
	assert.Nil(t, c.hostFilter(""), "all, until the local one is known")
	assert.NotNil(t, c.hostFilter("dc1"))

	cfg := quiet("127.0.0.1:1")
	cfg.LaterDCs = []string{"dc2"}
	_, err := cfg.complete()
	require.ErrorIs(t, err, ErrConfig)
	assert.Equal(t, `"a" or "b"`, quoted([]string{"a", "b"}))
}
