package lookup

import (
	"time"

	"github.com/qosproxy/qosproxy/internal/hotkeys"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// HotKeys are the most requested keys of one table.
type HotKeys struct {
	// Table is the table, as its settings name it.
	Table *Settings
	// Window is the time that the counts cover.
	Window time.Duration
	// Keys is the approximate number of keys requested; a key counts once per
	// lookup. One key in OneIn is sampled.
	Keys  uint64
	OneIn int
	// Top are the keys, most requested first.
	Top []HotKey
}

// HotKey is one key of HotKeys.
type HotKey struct {
	hotkeys.Key
	// Share is the share of all keys requested of the table, 0 to 1.
	Share float64
	// Replicas are the hosts that own the key, in ring order; empty when the ring is
	// not known.
	Replicas []ring.Host
}

// HotKeys returns the k most requested keys of each table, in the order of the
// configuration; nil when Config.HotKeys is off.
func (s *Service) HotKeys(k int) []HotKeys {
	if !s.cfg.HotKeys {
		return nil
	}
	snapshot, served := s.cfg.Ring(), s.served.Load()
	out := make([]HotKeys, 0, len(served.order))
	for _, t := range served.order {
		report := t.hot.Top(k)
		hot := HotKeys{Table: t, Window: report.Window, Keys: report.Keys, OneIn: report.OneIn}
		for _, key := range report.Top {
			h := HotKey{Key: key, Share: float64(key.Count) / float64(max(report.Keys, 1))}
			if snapshot != nil {
				if placement, ok := snapshot.Placement(t.Keyspace); ok {
					for _, r := range placement.Replicas(ring.Token(key.Routing)) {
						h.Replicas = append(h.Replicas, snapshot.Host(r))
					}
				}
			}
			hot.Top = append(hot.Top, h)
		}
		out = append(out, hot)
	}
	return out
}
