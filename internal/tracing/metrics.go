package tracing

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count spans by outcome.
type metrics struct{ exported, failed, dropped prometheus.Counter }

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "qosproxy_trace_spans_total",
		Help: "Spans by outcome: exported were taken by the collector, failed were in a batch that it refused, if only in part, or did not take in time, dropped came while too many waited to be sent.",
	}, []string{"outcome"})
	if to != nil {
		if err := to.Register(spans); err != nil {
			return nil, fmt.Errorf("register the count of spans: %w", err)
		}
	}
	return &metrics{spans.WithLabelValues("exported"), spans.WithLabelValues("failed"), spans.WithLabelValues("dropped")}, nil
}
