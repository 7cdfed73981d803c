//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// stallTick is how often a stallWatch wakes, and stallLeast how late it must be for a stall: two
	// time slices of the kernel's scheduler more than a busy machine makes anybody wait.
	stallTick, stallLeast = 5 * time.Millisecond, 40 * time.Millisecond
	// stallsKept is the most stalls kept for one load.
	stallsKept = 20
)

// stallWatch records when the process got no CPU.
type stallWatch struct {
	mu   sync.Mutex
	seen []seenStall
}

type seenStall struct {
	end          time.Time
	took, stolen time.Duration
}

// watchStalls returns a stallWatch that runs until ctx ends.
func watchStalls(ctx context.Context) *stallWatch {
	w := &stallWatch{}
	go func() {
		stolen := stolenTime()
		for last := time.Now(); ctx.Err() == nil; {
			time.Sleep(stallTick)
			now := time.Now()
			if late := now.Sub(last) - stallTick; late >= stallLeast {
				was := stolen
				stolen = stolenTime()
				w.mu.Lock()
				w.seen = append(w.seen, seenStall{now, late, stolen - was})
				w.mu.Unlock()
			} else if now.UnixMilli()/100 != last.UnixMilli()/100 {
				stolen = stolenTime()
			}
			last = time.Now()
		}
	}()
	return w
}

// since returns the last stalls since begin.
func (w *stallWatch) since(begin time.Time) []Stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Stall
	for _, s := range w.seen {
		if s.end.After(begin) {
			out = append(out, Stall{At: s.end.Sub(begin).Seconds(), Seconds: s.took.Seconds(), Stolen: s.stolen.Seconds()})
		}
	}
	return out[max(len(out)-stallsKept, 0):]
}

// stolenTime returns the CPU time that the host of this virtual machine gave to others since it
// booted; 0 where that is unknown. See proc_stat(5).
func stolenTime() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Fscan(strings.NewReader(string(stat[len("cpu "):])), &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(steal) * time.Second / 100
}
