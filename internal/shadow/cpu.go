package shadow

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Processes are the processes of Cassandra nodes on this machine.
type Processes struct {
	proc string
	pids []string
}

// FindNodes finds the processes that listen at the addresses of nodes, each host:port. The
// error says why a node was not found: it runs on another machine, or its process may not be
// inspected. That is no failure.
func FindNodes(addresses []string) (*Processes, error) { return findNodes("/proc", addresses) }

func findNodes(proc string, addresses []string) (*Processes, error) {
	inodes, err := listeners(proc)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, errors.New("no node is known")
	}
	owners := socketOwners(proc)
	p := &Processes{proc: proc}
	for _, address := range addresses {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("%s is no address", address)
		}
		pid, found := "", false
		if local(at.Addr()) {
			for _, bound := range []netip.Addr{at.Addr().Unmap(), netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
				if pid, found = owners[inodes[netip.AddrPortFrom(bound, at.Port())]]; found {
					break
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("no process that listens at %s can be seen from this machine", address)
		}
		if !slices.Contains(p.pids, pid) {
			p.pids = append(p.pids, pid)
		}
	}
	return p, nil
}

// local reports whether an address is one of this machine.
func local(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(o net.Addr) bool {
		p, err := netip.ParsePrefix(o.String())
		return err == nil && p.Addr().Unmap() == a.Unmap()
	})
}

// listeners returns the inodes of listening sockets, by address.
func listeners(proc string) (map[netip.AddrPort]string, error) {
	found := map[netip.AddrPort]string{}
	var failed error
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(filepath.Join(proc, table))
		if err != nil {
			failed = err
			continue
		}
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
			const listening = "0A"
			f := strings.Fields(s.Text())
			if len(f) < 10 || f[3] != listening {
				continue
			}
			if at, ok := kernelAddress(f[1]); ok {
				found[at] = f[9]
			}
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case failed != nil:
		return nil, fmt.Errorf("no listening socket can be seen from here: %w", failed)
	default:
		return nil, errors.New("no listening socket can be seen from here")
	}
}

// kernelAddress parses an address as Linux writes it: 32-bit words in the byte order of the
// machine, which is assumed to be little-endian, and a port.
func kernelAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	n, errPort := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || errPort != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), ok
}

// socketOwners returns the processes of sockets that may be inspected, by inode.
func socketOwners(proc string) map[string]string {
	found := map[string]string{}
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	for _, link := range links {
		to, err := os.Readlink(link)
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			found[strings.TrimSuffix(inode, "]")] = filepath.Base(filepath.Dir(filepath.Dir(link)))
		}
	}
	return found
}

// clockTick is the unit of CPU times in /proc, on all machines that Go runs on.
const clockTick = 10 * time.Millisecond

// Spent returns the CPU time of all nodes since they started. The error is that of a process
// that cannot be read, for example one that is gone.
func (p *Processes) Spent() (time.Duration, error) {
	var ticks uint64
	for _, pid := range p.pids {
		text, err := os.ReadFile(filepath.Join(p.proc, pid, "stat"))
		if err != nil {
			return 0, err
		}
		// The name, in parentheses, may hold spaces and parentheses.
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(f) < 13 {
			return 0, fmt.Errorf("%s: too short", pid)
		}
		for _, field := range f[11:13] { // utime and stime
			n, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick, nil
}
