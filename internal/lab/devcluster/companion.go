package devcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Dir is the folder of the cluster. It goes with all that is in it when the
// cluster is stopped, or when this process ends without that.
func (c *Cluster) Dir() string { return c.dir }

// Companion returns a command for a process that lives no longer than the
// cluster, such as a proxy in front of it: when this process is killed, it is
// killed as the nodes are. It has a process group of its own. The name is a file
// name that no other companion has. The caller starts the command, ends it before
// Stop, and calls ended after it has waited for it.
func (c *Cluster) Companion(name string, args ...string) (cmd *exec.Cmd, ended func()) {
	name = "companion-" + name
	cmd = c.watchdog.command(name, args)
	return cmd, func() { c.watchdog.forget(name, cmd.Process.Pid) }
}

// LimitMemory holds a process, such as a companion, to so many bytes of memory by
// a control group: the kernel kills it when it needs more. The group stays until
// lift is called, after the end of the process. It needs what Node.LimitCPU needs,
// with the memory controller.
func (c *Cluster) LimitMemory(pid int, bytes int64) (lift func() error, err error) {
	group, err := limitMemory(fmt.Sprintf("qosproxy-devcluster-%d-memory-%d", os.Getpid(), pid), pid, bytes)
	if err != nil {
		return nil, fmt.Errorf("limit the memory of process %d: %w", pid, err)
	}
	if err := c.watchdog.addGroup(group); err != nil {
		return nil, errors.Join(err, removeGroup(group))
	}
	return func() error { return removeGroup(group) }, nil
}
