package server

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The reasons for which a connection is refused.
const (
	// refusedFull: there are as many connections as there may be.
	refusedFull = "max_connections"
	// refusedFresh: it was the oldest of too many without a sign of a client.
	refusedFresh = "half_open"
	// refusedHandshake: its TLS handshake failed or took too long.
	refusedHandshake = "handshake"
	// refusedResets: its peer reset the calls that it began, at once.
	refusedResets = "rapid_reset"
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
			Help: "Connections closed before they reached a server: over max_connections, half open for too long while many were, or without a TLS handshake; and those whose calls were reset at once (rapid_reset).",
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

// doorMetrics are the metrics of one listener.
type doorMetrics struct {
	name    string
	open    prometheus.Gauge
	refused *prometheus.CounterVec
}

// door returns the metrics of a listener, which then show 0.
func (m *metrics) door(name string) doorMetrics {
	for _, reason := range []string{refusedFull, refusedFresh, refusedHandshake, refusedResets} {
		m.refused.WithLabelValues(name, reason)
	}
	return doorMetrics{name, m.open.WithLabelValues(name), m.refused}
}
