package devcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cpuGroup is the folder of a control group with a CPU quota; empty for none.
type cpuGroup string

// quotaPeriod returns the period of a quota in microseconds. The kernel requires a quota of at
// least a millisecond. From a tenth of a CPU on the period is so short that the process is slow all
// the time. Below that it is the default of the kernel and of container runtimes, and the process
// is stopped for most of each period.
func quotaPeriod(fraction float64) int {
	if fraction >= 0.1 {
		return 10_000
	}
	return 100_000
}

// newCPUGroup makes a control group for one node, in whichever version of the interface, 1 or 2,
// has the cpu controller.
func newCPUGroup(name string) (cpuGroup, error) {
	path, err := newGroup("cpu", name)
	return cpuGroup(path), err
}

// newGroup makes a control group with this controller and returns its folder.
func newGroup(controller, name string) (string, error) {
	parent, unified, err := mountOf(controller)
	if err != nil {
		return "", err
	}
	if unified {
		if err := delegate(parent, controller); err != nil {
			return "", err
		}
	}
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make a control group (run as root): %w", err)
	}
	return path, nil
}

// mountOf returns the mount point of the control groups that have this controller, and whether they
// are in the unified hierarchy (version 2).
func mountOf(controller string) (path string, unified bool, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(mounts)) {
		// device folder type options …
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup":
			if slices.Contains(strings.Split(fields[3], ","), controller) {
				return fields[1], false, nil
			}
		case "cgroup2":
			controllers, err := os.ReadFile(filepath.Join(fields[1], "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(controllers)), controller) {
				return fields[1], true, nil
			}
		}
	}
	return "", false, fmt.Errorf("no control groups with the %s controller are mounted here", controller)
}

// delegate enables the controller for the groups below parent.
func delegate(parent, controller string) error {
	file := filepath.Join(parent, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(enabled)), controller) {
		return nil
	}
	if err := os.WriteFile(file, []byte("+"+controller), 0o644); err != nil {
		return fmt.Errorf("enable the %s controller below %s (run as root, outside of a container): %w", controller, parent, err)
	}
	return nil
}

// weight is the weight of a group, in the units of version 2 and of version 1.
type weight struct{ unified, shares string }

// All threads of a group share its weight, while every thread outside of a group has one of its
// own, 1,024 shares. With the default weight a node would get next to nothing beside busy threads,
// whatever its quota allows. With the highest the others would run only when the node has used up
// its quota.
var (
	fairWeight  = weight{"800", "8192"} // that of eight threads
	leastWeight = weight{"1", "10"}     // that of a hundredth of a thread
)

// limit moves the process into the group and sets its quota, as a fraction of one CPU; 0 moves it
// out again. Without yield the process gets the quota even on a busy machine; with yield only when
// the CPUs are otherwise idle.
func (g cpuGroup) limit(pid int, fraction float64, yield bool) error {
	if fraction == 0 {
		return join(filepath.Dir(string(g)), pid)
	}
	period := quotaPeriod(fraction)
	quota := int(fraction * float64(period))
	weight := fairWeight
	if yield {
		weight = leastWeight
	}
	settings := map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period), "cpu.weight": weight.unified}
	if _, err := os.Stat(filepath.Join(string(g), "cpu.cfs_quota_us")); err == nil {
		settings = map[string]string{
			"cpu.cfs_period_us": strconv.Itoa(period),
			"cpu.cfs_quota_us":  strconv.Itoa(quota),
			"cpu.shares":        weight.shares,
		}
	}
	for name, value := range settings {
		if err := os.WriteFile(filepath.Join(string(g), name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	return join(string(g), pid)
}

// join moves a process into a group.
func join(group string, pid int) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// remove removes the group after its process has ended. It retries, because the kernel releases a
// process only a moment after it was reaped.
func (g cpuGroup) remove() error { return removeGroup(string(g)) }

func removeGroup(path string) error {
	var err error
	for range 50 {
		if err = os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// limitMemory moves a process into a new group that limits its memory to bytes and allows no swap.
// It returns the folder of the group.
func limitMemory(name string, pid int, bytes int64) (string, error) {
	group, err := newGroup("memory", name)
	if err != nil {
		return "", err
	}
	settings := [][2]string{{"memory.max", strconv.FormatInt(bytes, 10)}, {"memory.swap.max", "0"}}
	if _, err := os.Stat(filepath.Join(group, "memory.limit_in_bytes")); err == nil {
		// memsw limits memory and swap together, hence no swap. It must not be below limit_in_bytes, so
		// it is written second.
		settings = [][2]string{{"memory.limit_in_bytes", settings[0][1]}, {"memory.memsw.limit_in_bytes", settings[0][1]}}
	}
	for i, s := range append(settings, [2]string{"cgroup.procs", strconv.Itoa(pid)}) {
		err := os.WriteFile(filepath.Join(group, s[0]), []byte(s[1]), 0o644)
		// Kernels without swap accounting lack the second file.
		if err != nil && (i != 1 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)) {
			return "", errors.Join(err, removeGroup(group))
		}
	}
	return group, nil
}
