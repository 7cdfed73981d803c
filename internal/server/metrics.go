package server

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// connRefusal is why a connection is refused, as a metric label.
type connRefusal string

// The reasons for which a connection is refused.
const (
	// refusedFull means that there are as many connections as allowed.
	refusedFull connRefusal = "max_connections"
	// refusedFresh means that it was the oldest of too many fresh connections.
	refusedFresh connRefusal = "half_open"
	// refusedHandshake means that its TLS handshake failed or took too long.
	refusedHandshake connRefusal = "handshake"
	// refusedResets means that its peer began calls and reset them at once.
	refusedResets connRefusal = "rapid_reset"
)

// metrics are the metrics of the listeners.
type metrics struct {
	open    *prometheus.GaugeVec
	refused *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "qosproxy_connections", Help: "Connections from clients that are open, by listener.",
		}, []string{"listener"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "qosproxy_connections_refused_total",
			Help: "Connections closed by the proxy: over max_connections, half open for too long while many were, without a TLS handshake, or whose calls were reset at once (rapid_reset).",
		}, []string{"listener", "reason"}),
	}
}

// register registers the metrics with reg, which may be nil.
func (m *metrics) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	return errors.Join(reg.Register(m.open), reg.Register(m.refused))
}

// listenerMetrics are the metrics of one listener.
type listenerMetrics struct {
	name    string
	open    prometheus.Gauge
	refused *prometheus.CounterVec
}

// listener returns the metrics of a listener, initialized to 0.
func (m *metrics) listener(name string) listenerMetrics {
	l := listenerMetrics{name, m.open.WithLabelValues(name), m.refused}
	for _, reason := range []connRefusal{refusedFull, refusedFresh, refusedHandshake, refusedResets} {
		l.refusals(reason)
	}
	return l
}

// refusals returns the counter of connections refused for a reason.
func (l *listenerMetrics) refusals(reason connRefusal) prometheus.Counter {
	return l.refused.WithLabelValues(l.name, string(reason))
}
