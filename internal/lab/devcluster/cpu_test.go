package devcluster

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The time of a process that ends while it is asked for is neither lost nor counted twice.
func TestTheCPUTimeOfANodeThatEndsIsCountedOnce(t *testing.T) {
	n := &Node{number: 1, cluster: &Cluster{watchdog: &watchdog{dir: t.TempDir()}}}
	last := 0.0
	for range 20 {
		p := &process{cmd: exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"), done: make(chan struct{})}
		require.NoError(t, p.cmd.Start())
		n.mu.Lock()
		n.process = p
		n.mu.Unlock()
		go n.reap(p)
		for ended := false; !ended; {
			select {
			case <-p.done:
				ended = true
			default:
			}
			spent, err := n.CPUSeconds()
			require.NoError(t, err)
			// The kernel tells the time of a process that runs in hundredths, and more exactly at its end.
			require.GreaterOrEqual(t, spent, last-0.02)
			last = max(last, spent)
		}
		require.InDelta(t, n.spent.Seconds(), last, 0.02)
	}
}
