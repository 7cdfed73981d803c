package devcluster

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

//go:embed watchdog.sh
var watchdogScript string

// launchScript registers its process with the watchdog and then becomes the node by exec. $1 is the
// folder of process ids, $2 the name, the rest the command. The process registers itself, by a
// rename, so that a crash of the parent never leaves a node that the watchdog does not know.
const launchScript = `folder=$1; name=$2; shift 2
echo $$ >"$folder/../$name.pid" && mv "$folder/../$name.pid" "$folder/$name" && exec "$@"`

// watchdog is a shell in its own session. If this process is killed, the watchdog survives it,
// kills the nodes and removes the cluster's folder. It holds the lock until that is done.
type watchdog struct {
	dir  string
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// startWatchdog starts the watchdog of the cluster's folder. held is the lock that it keeps, or
// nil.
func startWatchdog(dir string, held *os.File) (*watchdog, error) {
	if err := os.Mkdir(filepath.Join(dir, "pids"), 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "qosproxy-devcluster-watchdog", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	if held != nil {
		cmd.ExtraFiles = []*os.File{held}
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the cluster's watchdog: %w", err)
	}
	return &watchdog{dir, cmd, pipe}, nil
}

// command returns a command that runs args as a process that the watchdog knows by name. The
// process has its own process group, so that a Ctrl-C in the terminal reaches this program only.
func (w *watchdog) command(name string, args []string) *exec.Cmd {
	launch := []string{"-c", launchScript, "qosproxy-devcluster-node", filepath.Join(w.dir, "pids"), name}
	cmd := exec.Command("/bin/sh", append(launch, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// forget removes a process that has ended from the watchdog's list, so that the watchdog does not
// kill another one with the same id.
func (w *watchdog) forget(name string, pid int) {
	file := filepath.Join(w.dir, "pids", name)
	if known, err := os.ReadFile(file); err == nil && string(known) == strconv.Itoa(pid)+"\n" {
		_ = os.Remove(file)
	}
}

// addGroup makes the watchdog remove a control group after it has killed the nodes.
func (w *watchdog) addGroup(path string) error {
	file, err := os.OpenFile(filepath.Join(w.dir, "cgroups"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, path)
	return errors.Join(err, file.Close())
}

// dismiss ends the watchdog after the caller has removed everything.
func (w *watchdog) dismiss() error {
	_, err := io.WriteString(w.pipe, "done\n")
	return errors.Join(err, w.pipe.Close(), w.cmd.Wait())
}
