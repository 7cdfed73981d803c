package devcluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const helperVariable = "QOSPROXY_DEVCLUSTER_TEST_HELPER"

// helpers are the functions of this test program when a test starts it as a separate process. They
// return a line that is printed when they are ready; then the process waits to be killed.
var helpers = map[string]func(ctx context.Context, arg string) (string, error){
	// sleeper runs a watchdog and two processes that are not nodes.
	"sleeper": func(ctx context.Context, dir string) (string, error) {
		held, err := acquireLock(ctx, helperLock(dir))
		if err != nil {
			return "", err
		}
		var w *watchdog
		err = held.lend(func(file *os.File) error {
			w, err = startWatchdog(dir, file)
			return err
		})
		if err != nil {
			return "", err
		}
		var line strings.Builder
		for _, name := range []string{"node1", "node2"} {
			cmd := w.command(name, []string{"sleep", "1000"})
			if err := cmd.Start(); err != nil {
				return "", err
			}
			fmt.Fprintf(&line, "%d ", cmd.Process.Pid)
		}
		for _, name := range []string{"node1", "node2"} {
			for !exists(filepath.Join(dir, "pids", name)) {
				time.Sleep(time.Millisecond)
			}
		}
		return line.String(), nil
	},
	// cluster runs a real cluster below a folder.
	"cluster": func(ctx context.Context, dir string) (string, error) {
		c, err := Start(ctx, Config{Nodes: Racks("dc1", "r1", "r2"), Dir: dir})
		if err != nil {
			return "", err
		}
		var line strings.Builder
		for _, n := range c.Nodes() {
			fmt.Fprintf(&line, "%d ", n.PID())
		}
		companion, _ := c.Companion("sleep", "sleep", "1000")
		if err := companion.Start(); err != nil {
			return "", err
		}
		fmt.Fprintf(&line, "%d ", companion.Process.Pid)
		for !exists(filepath.Join(c.Dir(), "pids", "companion-sleep")) {
			time.Sleep(time.Millisecond)
		}
		return line.String(), nil
	},
}

func TestMain(m *testing.M) {
	name, arg, _ := strings.Cut(os.Getenv(helperVariable), " ")
	helper, ok := helpers[name]
	if !ok {
		os.Exit(m.Run())
	}
	line, err := helper(context.Background(), arg)
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(line)
	select {}
}

// startHelper starts this program as a helper and returns it with the process ids it printed.
func startHelper(t *testing.T, name, arg string) (*exec.Cmd, []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+name+" "+arg)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	var pids []int
	for word := range strings.FieldsSeq(line) {
		pid, err := strconv.Atoi(word)
		require.NoError(t, err, line)
		pids = append(pids, pid)
	}
	return cmd, pids
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// alive reports whether the process runs. A process that has ended but was not reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

func anyAlive(pids []int) bool {
	return slices.ContainsFunc(pids, alive)
}

func TestWatchdogCleansUpAfterAKilledParent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), fmt.Sprintf("qosproxy-test-%d", os.Getpid()))
	require.NoError(t, os.Mkdir(dir, 0o755))
	parent, pids := startHelper(t, "sleeper", dir)
	require.Len(t, pids, 2)
	require.NoError(t, syscall.Kill(pids[1], syscall.SIGSTOP), "a paused node goes as well")
	for _, pid := range pids {
		require.True(t, alive(pid))
	}

	_, err := acquireLock(t.Context(), helperLock(dir))
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, fmt.Sprintf("process %d has it", parent.Process.Pid))

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	held, err := acquireLock(ctx, helperLock(dir))
	require.NoError(t, err, "the lock is free when the watchdog has done its work")
	assert.False(t, anyAlive(pids))
	assert.NoDirExists(t, dir)
	require.NoError(t, held.release())
}

func TestDismissedWatchdogTouchesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	w, err := startWatchdog(dir, nil)
	require.NoError(t, err)
	cmd := w.command("node1", []string{"sleep", "1000"})
	require.NoError(t, cmd.Start())
	file := filepath.Join(dir, "pids", "node1")
	require.Eventually(t, func() bool { return exists(file) }, 5*time.Second, time.Millisecond)
	require.NoError(t, w.dismiss())
	assert.DirExists(t, dir)
	assert.True(t, alive(cmd.Process.Pid))

	w.forget("node1", cmd.Process.Pid+1)
	assert.FileExists(t, file, "it is another process's")
	w.forget("node1", cmd.Process.Pid)
	assert.NoFileExists(t, file)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

func TestNodeIsNotStartedOnceTheWatchdogIsAtWork(t *testing.T) {
	dir := t.TempDir()
	w := &watchdog{dir: dir}
	started := filepath.Join(dir, "started")
	require.Error(t, w.command("node1", []string{"touch", started}).Run(), "there is no folder of process ids any more")
	assert.NoFileExists(t, started)
}

func TestLockIsForOne(t *testing.T) {
	defer goleak.VerifyNone(t)
	name := fmt.Sprintf("%s-test-%d", lockName, os.Getpid())
	held, err := acquireLock(t.Context(), name)
	require.NoError(t, err)
	dir := t.TempDir()
	var w *watchdog
	require.NoError(t, held.lend(func(file *os.File) error {
		w, err = startWatchdog(dir, file)
		return err
	}))
	for range 200 { // more than a listener that does not answer may keep waiting
		_, err = acquireLock(t.Context(), name)
		require.ErrorIs(t, err, ErrBusy)
	}
	require.ErrorContains(t, err, fmt.Sprintf("process %d has it", os.Getpid()))

	require.NoError(t, w.dismiss())
	require.NoError(t, held.release())
	held, err = acquireLock(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, held.release())
}

// helperLock returns the name of the test's own lock, which no real cluster uses.
func helperLock(dir string) string { return lockName + "-" + filepath.Base(dir) }
