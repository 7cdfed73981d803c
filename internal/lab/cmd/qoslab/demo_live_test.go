package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/sla"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

func TestTheLiveLineFits(t *testing.T) {
	l := liveLine{
		latency: sla.Percentiles{P50: 2 * time.Millisecond, P95: 12 * time.Millisecond, P99: 1234 * time.Millisecond},
		lookups: 1_234_567, failed: 12, subQueries: 2_469_110, hedges: 34_567,
	}
	for _, colour := range []bool{false, true} {
		for _, avoided := range [][]string{nil, {"node2"}, {"node2", "node3"}} {
			l.avoided = avoided
			for width := 20; width < 140; width++ {
				assert.LessOrEqual(t, terminal.Width(l.text(width, colour)), width)
			}
			at80 := terminal.Bare(l.text(79, colour))
			assert.Contains(t, at80, "p50   2.0  p95  12.0  p99 1234.0 ms")
			assert.Contains(t, at80, "12 failed")
			if len(avoided) == 2 {
				assert.Contains(t, at80, "AVOIDED node2, node3")
			}
		}
	}
	l.avoided = []string{"node2"}
	assert.Equal(t, "p50   2.0  p95  12.0  p99 1234.0 ms  AVOIDED node2  12 failed  34567 hedges  1234567 lookups  2.00 sub-queries each", l.text(0, false), "whole elsewhere")
	l.avoided = nil
	assert.NotContains(t, l.text(0, false), "AVOIDED")
}
