package devcluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
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
	busy := loop(t)
	spends := func() float64 {
		before, err := processCPU(busy.Process.Pid)
		require.NoError(t, err)
		start := time.Now()
		time.Sleep(700 * time.Millisecond)
		after, err := processCPU(busy.Process.Pid)
		require.NoError(t, err)
		return (after - before).Seconds() / time.Since(start).Seconds()
	}
	require.NoError(t, group.limit(busy.Process.Pid, 0.05, false))
	assert.Less(t, spends(), 0.1)
	require.NoError(t, group.limit(busy.Process.Pid, 0.1, false))
	assert.Less(t, spends(), 0.15, "over a shorter period")
	require.NoError(t, group.limit(busy.Process.Pid, 0, false))
	assert.Greater(t, spends(), 0.15, "without a limit")

	for range 4 * runtime.NumCPU() {
		loop(t)
	}
	assert.Less(t, spends(), 0.35, "one of five on each CPU")
	require.NoError(t, group.limit(busy.Process.Pid, 0.5, false))
	assert.Greater(t, spends(), 0.4, "what the limit allows")
	require.NoError(t, group.limit(busy.Process.Pid, 0.5, true))
	assert.Less(t, spends(), 0.05, "others want the CPUs")
	require.NoError(t, busy.Process.Kill())
	_ = busy.Wait()
	require.NoError(t, group.remove())
	assert.NoDirExists(t, string(group))
}

// loop starts a process that uses all CPU it can get and ends with the test.
func loop(t *testing.T) *exec.Cmd {
	t.Helper()
	busy := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
	require.NoError(t, busy.Start())
	t.Cleanup(func() { _ = busy.Wait() })
	return busy
}

func TestMemoryGroupEndsAProcessThatNeedsMore(t *testing.T) {
	for limit, killed := range map[int64]bool{16 << 20: true, 512 << 20: false} {
		// tail keeps the 64 MB of its input, which has no line, in memory.
		hungry := exec.Command("/bin/sh", "-c", "read -r go; head -c 64000000 /dev/zero | tail -n 1 | wc -c; echo done")
		input, err := hungry.StdinPipe()
		require.NoError(t, err)
		output, err := hungry.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, hungry.Start())
		group, err := limitMemory(fmt.Sprintf("qosproxy-devcluster-test-memory-%d", hungry.Process.Pid), hungry.Process.Pid, limit)
		if err != nil {
			_ = hungry.Process.Kill()
			_ = hungry.Wait()
			t.Skip(err)
		}
		_, err = input.Write([]byte("go\n"))
		require.NoError(t, err)
		text, err := io.ReadAll(output)
		require.NoError(t, err)
		_ = hungry.Wait()
		assert.Equal(t, killed, !strings.HasPrefix(string(text), "64000000"), "%s", text)
		require.NoError(t, removeGroup(group))
		assert.NoDirExists(t, group)
	}
}
