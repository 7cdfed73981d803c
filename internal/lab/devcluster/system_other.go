//go:build !linux

package devcluster

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// processCPU returns the user and system time of a process, including all its threads, to the
// hundredth of a second.
func processCPU(pid int) (time.Duration, error) {
	output, err := exec.Command("ps", "-o", "time=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("ps: %w", err)
	}
	// [hours:]minutes:seconds.hundredths
	var total float64
	for part := range strings.SplitSeq(strings.TrimSpace(string(output)), ":") {
		value, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("ps: %w", err)
		}
		total = total*60 + value
	}
	return time.Duration(total * float64(time.Second)), nil
}

// compilerCPU returns 0: only Linux reports the times of threads.
func compilerCPU(int) (time.Duration, error) { return 0, nil }

var errNoPinning = errors.New("it needs Linux")

// ownCPUs is not supported here.
func ownCPUs() ([]int, error) { return nil, errNoPinning }

// pin is not supported here.
func pin(int, []int) error { return errNoPinning }

// portOwner names the process whose listener conflicts with an address, and the listener's address
// if it is another one; empty if unknown.
func portOwner(wanted netip.AddrPort) string {
	output, err := exec.Command("lsof", "-nP", "-Fpn", fmt.Sprintf("-iTCP:%d", wanted.Port()), "-sTCP:LISTEN").Output()
	if err != nil {
		return ""
	}
	owner, closest, pid := "", apart, ""
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "p"); ok {
			pid = id
			continue
		}
		name, ok := strings.CutPrefix(line, "n")
		if !ok {
			continue
		}
		at, err := netip.ParseAddrPort(strings.Replace(name, "*:", "[::]:", 1))
		if err != nil || clash(at, wanted) <= closest {
			continue
		}
		closest = clash(at, wanted)
		owner = "process " + pid
		if closest != equally {
			owner += ", which listens on " + name
		}
	}
	return owner
}

// aliasCommand returns a command that gives this machine a loopback address.
func aliasCommand(ip string) string { return "sudo ifconfig lo0 alias " + ip + " up" }
