package cassandra

import (
	"math"
	"sync"
	"time"
)

// inLimitMemory is how long a host's refusal of an IN is remembered. A changed
// guardrail takes effect by then.
const inLimitMemory = 10 * time.Minute

// inLimits remembers how many keys in one IN each host has refused. The zero
// value is ready for use.
type inLimits struct {
	mu    sync.RWMutex
	hosts map[string]inLimit
}

type inLimit struct {
	keys  int
	until time.Time
}

// get returns the most keys that a host accepts in one IN, as far as is known.
func (l *inLimits) get(host string) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.hosts) == 0 {
		return math.MaxInt
	}
	if h, ok := l.hosts[host]; ok && time.Now().Before(h.until) {
		return h.keys
	}
	return math.MaxInt
}

// lower remembers that a host accepts at most the given number of keys.
func (l *inLimits) lower(host string, keys int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = make(map[string]inLimit)
	}
	keys = max(keys, 1)
	if h, ok := l.hosts[host]; ok && time.Now().Before(h.until) {
		keys = min(keys, h.keys)
	}
	l.hosts[host] = inLimit{keys: keys, until: time.Now().Add(inLimitMemory)}
}
