package devcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Dir returns the folder of the cluster. It is removed with its contents when the cluster stops or
// this process ends.
func (c *Cluster) Dir() string { return c.dir }

// Companion returns a command for a process that must not outlive the cluster, such as a proxy in
// front of it: if this process is killed, the companion is killed as the nodes are. It has its own
// process group. The name must be a file name and unique among companions. The caller starts the
// command, ends it before Stop, and calls ended after it has waited for it.
func (c *Cluster) Companion(name string, args ...string) (cmd *exec.Cmd, ended func()) {
	name = "companion-" + name
	cmd = c.watchdog.command(name, args)
	return cmd, func() { c.watchdog.forget(name, cmd.Process.Pid) }
}

// LimitMemory limits the memory of a process, such as a companion, with a control group; the kernel
// kills the process when it needs more than bytes. The caller calls lift after the end of the
// process to remove the group. LimitMemory needs what Node.LimitCPU needs, with the memory
// controller.
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
