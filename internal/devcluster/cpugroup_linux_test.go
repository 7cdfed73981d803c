package devcluster

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCPUGroupLimitsAProcess(t *testing.T) {
	group, err := newCPUGroup(fmt.Sprintf("qosproxy-devcluster-test-%d", os.Getpid()))
	if err != nil {
		t.Skip(err)
	}
	busy := exec.Command("/bin/sh", "-c", "while :; do :; done")
	require.NoError(t, busy.Start())
	spends := func() float64 {
		before, err := processCPU(busy.Process.Pid)
		require.NoError(t, err)
		start := time.Now()
		time.Sleep(700 * time.Millisecond)
		after, err := processCPU(busy.Process.Pid)
		require.NoError(t, err)
		return (after - before).Seconds() / time.Since(start).Seconds()
	}
	require.NoError(t, group.limit(busy.Process.Pid, 0.05))
	assert.Less(t, spends(), 0.1)
	require.NoError(t, group.limit(busy.Process.Pid, 0.1))
	assert.Less(t, spends(), 0.15, "over a shorter period")
	require.NoError(t, group.limit(busy.Process.Pid, 0))
	assert.Greater(t, spends(), 0.15, "without a limit")
	require.NoError(t, busy.Process.Kill())
	_ = busy.Wait()
	require.NoError(t, group.remove())
	assert.NoDirExists(t, string(group))
}
