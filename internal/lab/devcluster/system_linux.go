package devcluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// userHertz is the number of clock ticks per second in /proc; the kernel fixes it at 100 for every
// architecture that Go runs on.
const userHertz = 100

// processCPU returns the user and system time of a process, including all its threads (proc(5),
// fields 14 and 15 of stat).
func processCPU(pid int) (time.Duration, error) {
	return statCPU(fmt.Sprintf("/proc/%d/stat", pid))
}

// compilerCPU returns the CPU time of a JVM's JIT compiler threads.
func compilerCPU(pid int) (time.Duration, error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		// The kernel cuts "C2 CompilerThread0" to fifteen bytes.
		if kind, ok := strings.CutSuffix(string(comm), " CompilerThre\n"); !ok || kind != "C1" && kind != "C2" {
			continue
		}
		spent, err := statCPU(filepath.Join(filepath.Dir(name), "stat"))
		if err != nil {
			return 0, err
		}
		total += spent
	}
	return total, nil
}

// ownCPUs returns the CPUs that this process was allowed to use at the first call.
var ownCPUs = sync.OnceValues(func() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
})

// pin restricts all threads of a process to these CPUs. A new thread inherits the CPUs of its
// creator, so pin is done when it finds no new thread.
func pin(pid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for done := map[string]bool{}; ; {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		before := len(done)
		for _, t := range threads {
			if done[t.Name()] {
				continue
			}
			done[t.Name()] = true
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
		}
		if len(done) == before {
			return nil
		}
	}
}

// statCPU returns the user and system time from the stat file of a process or thread.
func statCPU(path string) (time.Duration, error) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The name of the command, field 2, may hold blanks and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+system) * (time.Second / userHertz), nil
}

// listening is the state of a socket in /proc/net/tcp.
const listening = "0A"

// portOwner names the process whose listener conflicts with an address, and the listener's address
// if it is another one; empty if unknown, because only root sees the sockets of other users'
// processes.
func portOwner(wanted netip.AddrPort) string {
	listeners := map[string]netip.AddrPort{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) <= 9 || fields[3] != listening {
				continue
			}
			if at, ok := socketAddress(fields[1]); ok && clash(at, wanted) != apart {
				listeners["socket:["+fields[9]+"]"] = at
			}
		}
	}
	owner, closest := "", apart
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		at, ok := listeners[target]
		if !ok || clash(at, wanted) <= closest {
			continue
		}
		closest = clash(at, wanted)
		pid := strings.Split(link, "/")[2]
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		owner = fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
		if closest != equally {
			owner += ", which listens on " + at.String()
		}
	}
	return owner
}

// socketAddress parses an address of /proc/net/tcp or tcp6, such as 0100007F:1F90: 32-bit words in
// native byte order, and the port.
func socketAddress(text string) (netip.AddrPort, bool) {
	host, service, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(service, 16, 16)
	if err != nil || len(host) != 8 && len(host) != 32 {
		return netip.AddrPort{}, false
	}
	var bytes []byte
	for i := 0; i < len(host); i += 8 {
		word, err := strconv.ParseUint(host[i:i+8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, false
		}
		bytes = binary.NativeEndian.AppendUint32(bytes, uint32(word))
	}
	ip, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), ok
}

// aliasCommand returns a command that gives this machine a loopback address. Linux has all of
// 127.0.0.0/8 as soon as the interface is up.
func aliasCommand(string) string { return "ip link set lo up" }
