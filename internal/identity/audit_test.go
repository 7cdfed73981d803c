package identity

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefusalsAreCountedAndASampleIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		a := NewAudit(registry, slog.New(slog.NewJSONHandler(&log, nil)))
		flood := Refusal{Reason: WrongToken, Peer: "10.0.0.1:5"}
		for range 1000 {
			a.Refused(t.Context(), flood)
		}
		a.Refused(t.Context(), Refusal{Client: "checkout", Reason: ForbiddenTable, Table: "shop.orders"})
		time.Sleep(auditInterval)
		a.Refused(t.Context(), flood)

		var lines []map[string]any
		for text := range strings.Lines(log.String()) {
			var line map[string]any
			require.NoError(t, json.Unmarshal([]byte(text), &line))
			delete(line, "time")
			lines = append(lines, line)
		}
		common := func(more map[string]any) map[string]any {
			more["level"], more["msg"] = "WARN", "request refused"
			return more
		}
		assert.Equal(t, []map[string]any{
			common(map[string]any{"client": "", "reason": "token", "peer": "10.0.0.1:5"}),
			common(map[string]any{"client": "checkout", "reason": "table", "table": "shop.orders"}),
			common(map[string]any{"client": "", "reason": "token", "peer": "10.0.0.1:5", "omitted": 999.0}),
		}, lines)

		assert.Equal(t, len(Reasons), testutil.CollectAndCount(a.refused), "every reason is there from the start")
		assert.Equal(t, 1001.0, testutil.ToFloat64(a.refused.WithLabelValues("token")))
		assert.Equal(t, 1.0, testutil.ToFloat64(a.refused.WithLabelValues("table")))
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
	})
	var none *Audit
	none.Refused(t.Context(), Refusal{})
}
