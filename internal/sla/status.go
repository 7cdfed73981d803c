package sla

import "time"

// TableStatus is a table and its promise, for /status; it encodes as JSON.
type TableStatus struct {
	Percentile  float64                 `json:"percentile"`
	TargetMS    float64                 `json:"target_ms"`
	OperateAtMS float64                 `json:"operate_at_ms"`
	Windows     map[string]WindowStatus `json:"windows"`
}

// WindowStatus is one window of a table, by its name 1m or 5m.
type WindowStatus struct {
	Count    int64   `json:"count"`
	P50MS    float64 `json:"p50_ms"`
	P95MS    float64 `json:"p95_ms"`
	P99MS    float64 `json:"p99_ms"`
	P999MS   float64 `json:"p999_ms"`
	MaxMS    float64 `json:"max_ms"`
	Ratio    float64 `json:"ratio"`
	BurnRate float64 `json:"burn_rate"`
}

// Status returns every table with its promise and how it is kept.
func (r *Recorder) Status() map[string]TableStatus {
	now := time.Now()
	tables := r.current.Load().tables
	status := make(map[string]TableStatus, len(tables))
	for name, t := range tables {
		s := TableStatus{
			Percentile: t.target.Percentile, TargetMS: millis(t.target.Target), OperateAtMS: millis(t.target.OperateAt),
			Windows: make(map[string]WindowStatus, len(windows)),
		}
		for _, w := range windows {
			p := t.snapshot(now, w.length)
			s.Windows[w.name] = WindowStatus{
				Count: p.Count, P50MS: millis(p.P50), P95MS: millis(p.P95), P99MS: millis(p.P99), P999MS: millis(p.P999),
				MaxMS: millis(p.Max), Ratio: p.Ratio, BurnRate: p.Burn,
			}
		}
		status[name] = s
	}
	return status
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
