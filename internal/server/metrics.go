package server

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// connRefusal is why a connection is refused; the label of a metric.
type connRefusal string

// The reasons for which a connection is refused.
const (
	// refusedFull: there are as many connections as there may be.
	refusedFull connRefusal = "max_connections"
	// refusedFresh: it was the oldest of too many without a sign of a client.
	refusedFresh connRefusal = "half_open"
	// refusedHandshake: its TLS handshake failed or took too long.
	refusedHandshake connRefusal = "handshake"
	// refusedResets: its peer reset the calls that it began, at once.
	refusedResets connRefusal = "rapid_reset"
)

// metrics are those of the listeners.
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

// register makes the metrics known to reg, if there is one.
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

// listener returns the metrics of a listener, which then show 0.
func (m *metrics) listener(name string) listenerMetrics {
	l := listenerMetrics{name, m.open.WithLabelValues(name), m.refused}
	for _, reason := range []connRefusal{refusedFull, refusedFresh, refusedHandshake, refusedResets} {
		l.refusals(reason)
	}
	return l
}

// refusals counts the connections that were refused for a reason.
func (l *listenerMetrics) refusals(reason connRefusal) prometheus.Counter {
	return l.refused.WithLabelValues(l.name, string(reason))
}
