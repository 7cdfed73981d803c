package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// observe takes a duration, with the trace that shows one like it if there is one.
func observe(o prometheus.Observer, took time.Duration, traceID string) {
	if traceID != "" {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
			return
		}
	}
	o.Observe(took.Seconds())
}
