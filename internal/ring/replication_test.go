package ring_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/ring"
)

func TestParseReplication(t *testing.T) {
	for name, tc := range map[string]struct {
		option map[string]string
		want   string
		err    error
	}{
		"the class loses its package": {
			option: map[string]string{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"},
			want:   "{'class': 'SimpleStrategy', 'replication_factor': '3'}",
		},
		"every other option of NetworkTopologyStrategy is a datacenter": {
			option: map[string]string{"class": "NetworkTopologyStrategy", "eu": "3", "ap": "2"},
			want:   "{'class': 'NetworkTopologyStrategy', 'ap': '2', 'eu': '3'}",
		},
		"a datacenter with a quote in its name is quoted": {
			option: map[string]string{"class": "NetworkTopologyStrategy", "a': '1', 'b": "2"},
			want:   "{'class': 'NetworkTopologyStrategy', 'a'': ''1'', ''b': '2'}",
		},
		"LocalStrategy takes no option": {
			option: map[string]string{"class": "org.apache.cassandra.locator.LocalStrategy"},
			want:   "{'class': 'LocalStrategy'}",
		},
		"an unknown class is kept for New to refuse": {
			option: map[string]string{"class": "com.example.MyStrategy", "colour": "blue"},
			want:   "{'class': 'MyStrategy'}",
		},
		"no transient replica is no transient replication": {
			option: map[string]string{"class": "SimpleStrategy", "replication_factor": "3/0"},
			want:   "{'class': 'SimpleStrategy', 'replication_factor': '3'}",
		},
		"a transient replica is refused": {
			option: map[string]string{"class": "NetworkTopologyStrategy", "dc1": "3/1"},
			err:    ring.ErrTransient,
		},
		"a missing factor is refused":    {option: map[string]string{"class": "SimpleStrategy"}, err: ring.ErrReplicationOption},
		"a negative factor is refused":   {option: map[string]string{"class": "NetworkTopologyStrategy", "dc1": "-1"}, err: ring.ErrReplicationOption},
		"a factor in words is refused":   {option: map[string]string{"class": "NetworkTopologyStrategy", "dc1": "three"}, err: ring.ErrReplicationOption},
		"a factor beyond int is refused": {option: map[string]string{"class": "SimpleStrategy", "replication_factor": "99999999999999999999"}, err: ring.ErrReplicationOption},
		"no class is refused":            {option: map[string]string{"replication_factor": "3"}, err: ring.ErrReplicationOption},
	} {
		t.Run(name, func(t *testing.T) {
			r := ring.ParseReplication(tc.option)
			assert.ErrorIs(t, r.Err, tc.err)
			if tc.err == nil {
				assert.Equal(t, tc.want, r.String())
			}
		})
	}
}

func TestReplicationEqual(t *testing.T) {
	simple := func(factor int) ring.Replication {
		return ring.Replication{Strategy: ring.SimpleStrategy, Factor: factor}
	}
	network := func(factors map[string]int) ring.Replication {
		return ring.Replication{Strategy: ring.NetworkTopologyStrategy, Factors: factors}
	}
	assert.True(t, simple(3).Equal(simple(3)))
	assert.False(t, simple(3).Equal(simple(2)))
	assert.True(t, network(map[string]int{"a": 1, "b": 2}).Equal(network(map[string]int{"b": 2, "a": 1})))
	assert.False(t, network(map[string]int{"a": 1, "b": 2}).Equal(network(map[string]int{"a': '1', 'b": 2})))
	assert.False(t, simple(3).Equal(ring.Replication{Strategy: ring.SimpleStrategy, Factor: 3, Err: ring.ErrTransient}))
}
