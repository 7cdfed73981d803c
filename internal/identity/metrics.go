package identity

import "github.com/prometheus/client_golang/prometheus"

func newBroken() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "qosproxy_token_files_broken",
		Help: "Token files of clients that are gone or cannot be used, so that the tokens read from them before are still in force.",
	})
}

// newRefused returns the counter of an Audit, with every reason at 0.
func newRefused() *prometheus.CounterVec {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "qosproxy_requests_refused_total",
		Help: "Requests refused for who sent them: not known (missing, token, header, certificate, conflict) or not allowed (table, column, keyspace).",
	}, []string{"reason"})
	for _, r := range Reasons {
		total.WithLabelValues(string(r))
	}
	return total
}
