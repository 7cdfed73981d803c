package cassandra

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// hosts returns hosts 1…n of a cluster.
func hosts(ids ...int) []ring.Host {
	out := make([]ring.Host, len(ids))
	for i, n := range ids {
		out[i] = ring.Host{
			ID: fmt.Sprintf("id-%d", n), Addr: fmt.Sprintf("10.0.0.%d:9042", n), DC: "dc1", Rack: "r1", Tokens: []int64{int64(n)},
		}
	}
	return out
}

func moved(h []ring.Host, i int) []ring.Host {
	h[i].Tokens = []int64{h[i].Tokens[0] + 1000}
	return h
}

func TestConfirmation(t *testing.T) {
	type seen struct {
		after time.Duration // since the view before
		from  string
		hosts []ring.Host
	}
	all, fewer, more := hosts(1, 2, 3), hosts(1, 2), hosts(1, 2, 3, 4)
	replaced := hosts(1, 2, 3)
	replaced[2].ID = "id-9" // another node at the same address with the same tokens
	readdressed := hosts(1, 2, 3)
	readdressed[2].Addr = "10.0.0.33:9042"
	for name, test := range map[string]struct {
		start []ring.Host
		seen  []seen
		want  []ring.Host
	}{
		"the first view alone is not believed":                          {nil, []seen{{0, "a", all}}, nil},
		"a second node confirms the first view":                         {nil, []seen{{0, "a", all}, {0, "b", all}}, all},
		"a single node confirms itself a second later":                  {nil, []seen{{0, "a", fewer}, {time.Second, "a", fewer}}, fewer},
		"a single node does not confirm itself at once":                 {nil, []seen{{0, "a", fewer}, {time.Millisecond, "a", fewer}}, nil},
		"a node that lists itself alone after a restart":                {all, []seen{{0, "a", hosts(1)}, {0, "b", all}}, all},
		"the same, twice in a row":                                      {all, []seen{{0, "a", hosts(1)}, {time.Second, "a", hosts(1)}, {time.Second, "b", all}}, all},
		"two restarted nodes that list themselves do not agree":         {all, []seen{{0, "a", hosts(1)}, {0, "b", hosts(2)}}, all},
		"a node has left, two say so":                                   {all, []seen{{0, "a", fewer}, {0, "b", fewer}}, fewer},
		"a node has left, one says so":                                  {all, []seen{{0, "a", fewer}}, all},
		"a node has left, one says so and another does not":             {all, []seen{{0, "a", fewer}, {0, "b", all}, {time.Hour, "a", fewer}}, all},
		"a node has left, the only other one says so for long":          {all, []seen{{0, "a", fewer}, {repeatDelay, "a", fewer}}, fewer},
		"a node has joined, two say so":                                 {all, []seen{{0, "a", more}, {0, "b", more}}, more},
		"a node that left long ago is still listed by one":              {all, []seen{{0, "b", more}, {0, "a", all}, {time.Minute, "b", more}, {0, "c", all}}, all},
		"a host has moved, one says so":                                 {all, []seen{{0, "a", moved(hosts(1, 2, 3), 1)}}, all},
		"a host has moved, two say so":                                  {all, []seen{{0, "a", moved(hosts(1, 2, 3), 1)}, {0, "b", moved(hosts(1, 2, 3), 1)}}, moved(hosts(1, 2, 3), 1)},
		"a host was replaced at its address, one says so":               {all, []seen{{0, "a", replaced}}, all},
		"a host was replaced at its address, two say so":                {all, []seen{{0, "a", replaced}, {0, "b", replaced}}, replaced},
		"a host has another address, two say so":                        {all, []seen{{0, "a", readdressed}, {0, "b", readdressed}}, readdressed},
		"nodes that never agree at first: the largest view, in the end": {nil, []seen{{0, "a", fewer}, {0, "b", all}, {firstPatience, "c", hosts(1)}}, all},
		"nodes that never agree later: the hosts that serve":            {all, []seen{{0, "a", fewer}, {0, "b", hosts(1)}, {time.Hour, "c", hosts(3)}}, all},
	} {
		t.Run(name, func(t *testing.T) {
			c := confirmation{hosts: test.start}
			now := time.Now()
			for _, s := range test.seen {
				now = now.Add(s.after)
				before := c.hosts
				believed := c.judge(view{from: s.from, hosts: s.hosts}, now)
				require.Equal(t, believed, !sameHosts(before, c.hosts) || sameHosts(before, s.hosts))
			}
			assert.Equal(t, test.want, c.hosts)
		})
	}
}

func TestConfirmationIgnoresTheRelease(t *testing.T) {
	c := confirmation{hosts: hosts(1, 2)}
	upgraded := hosts(1, 2)
	upgraded[1].Release = "5.1"
	require.True(t, c.judge(view{from: "a", hosts: upgraded}, time.Now()), "an upgrade does not move data")
	assert.Equal(t, "5.1", c.hosts[1].Release)
}

// TestConfirmationIsNeeded is the control of the tests above: believing every
// view serves a ring of one host.
func TestConfirmationIsNeeded(t *testing.T) {
	gullible := confirmation{hosts: hosts(1, 2, 3)}
	gullible.believe(hosts(1))
	assert.Len(t, gullible.hosts, 1)
}
