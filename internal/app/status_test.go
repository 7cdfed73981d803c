package app

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/cost"
	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/quorum"
	"github.com/qosproxy/qosproxy/internal/sla"
)

func TestSLAStatus(t *testing.T) {
	recorder, err := sla.New(nil, map[string]sla.Target{"shop.a": {Percentile: 95, Target: 125 * time.Millisecond, OperateAt: 62500 * time.Microsecond}})
	require.NoError(t, err)
	recorder.Observe(&sla.Lookup{Table: "shop.a", Keys: 1, Code: "OK", Duration: 10 * time.Millisecond})
	e := executor.New(executor.Config{})
	t.Cleanup(e.Close)
	a := &App{recorder: recorder, meter: cost.NewMeter(nil), executor: e, cluster: &cassandra.Cluster{}}
	body, err := json.Marshal(a.slaStatus())
	require.NoError(t, err)
	window := `{"count":1,"p50_ms":10,"p95_ms":10,"p99_ms":10,"p999_ms":10,"max_ms":10,"ratio":1,"burn_rate":0}`
	assert.JSONEq(t, `{"shop.a":{"percentile":95,"target_ms":125,"operate_at_ms":62.5,"windows":{"1m":`+window+`,"5m":`+window+`}}}`, string(body))

	e.Table("shop.a", 0).CountQuorum(quorum.Matched, 3)
	e.Table("shop.a", 0).CountQuorum(quorum.Ring, 2)
	reads := a.slaStatus()["shop.a"].QuorumReads
	require.NotNil(t, reads)
	assert.Equal(t, uint64(3), reads.Keys["matched"])
	assert.Equal(t, uint64(2), reads.Keys["fallback_ring"])
	assert.Equal(t, "it needs a restart of the proxy", reads.Closed, "which began without such tables")
}
