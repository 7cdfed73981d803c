package admission

import "time"

// Status is what a controller is doing, for /status; it encodes as JSON.
type Status struct {
	Enabled      bool `json:"enabled"`
	LimitKeys    int  `json:"limit_keys"` // that may be in-flight
	InflightKeys int  `json:"inflight_keys"`
	// MemoryBytes is what requests being received, expected answers of hosts and unsent answers
	// take, and MaxMemoryBytes what they may take; 0 means no limit.
	MemoryBytes     int64                  `json:"memory_bytes"`
	MaxMemoryBytes  int64                  `json:"max_memory_bytes"`
	InflightLookups map[string]int         `json:"inflight_lookups"` // by priority
	Tables          map[string]TableStatus `json:"tables"`           // by keyspace.table
}

// TableStatus is the ladder of one table.
type TableStatus struct {
	Level     Level   `json:"rung"`
	Name      string  `json:"gives_up"` // of the level
	ShortBurn float64 `json:"burn_rate_10s"`
	LongBurn  float64 `json:"burn_rate_1m"`
}

// Status returns what the controller is doing at this moment.
func (c *Controller) Status() Status {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{
		Enabled: c.limits.Enabled, LimitKeys: int(c.load.limit), InflightKeys: c.load.inflight,
		MemoryBytes: c.memory.Usage().Used, MaxMemoryBytes: c.limits.MaxMemory,
		InflightLookups: map[string]int{}, Tables: map[string]TableStatus{},
	}
	for class := range priorities {
		s.InflightLookups[priorityName(class)] = 0
	}
	for p := range c.load.open {
		s.InflightLookups[priorityName(p.class)]++
	}
	for name, t := range c.tables {
		t.ladder.step(c.limits.Ladder, now) // also where nobody asks
		short, long := t.ladder.burns(now)
		s.Tables[name] = TableStatus{t.ladder.level, t.ladder.level.String(), short, long}
	}
	return s
}
