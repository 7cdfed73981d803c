//go:build !linux

package devcluster

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// processCPU returns the user and system time of a process, all its threads
// included, to the hundredth of a second.
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

// compilerCPU returns 0: the times of threads are told by Linux alone.
func compilerCPU(int) (time.Duration, error) { return 0, nil }

// portOwner names the process that listens on a TCP port, empty if it cannot be told.
func portOwner(port int) string {
	output, err := exec.Command("lsof", "-nP", "-t", fmt.Sprintf("-iTCP:%d", port), "-sTCP:LISTEN").Output()
	if fields := strings.Fields(string(output)); err == nil && len(fields) > 0 {
		return "process " + fields[0]
	}
	return ""
}

// aliasCommand gives this machine a loopback address.
func aliasCommand(ip string) string { return "sudo ifconfig lo0 alias " + ip + " up" }
