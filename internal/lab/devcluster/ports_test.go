package devcluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckPort(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	err = CheckPort(address)
	require.ErrorContains(t, err, fmt.Sprintf("port %s is taken by process %d", address, os.Getpid()))
	assert.NotContains(t, err.Error(), "which listens on", "the address itself")
	require.NoError(t, listener.Close())
	require.NoError(t, CheckPort(address))
	require.NoError(t, CheckPort("127.0.0.1:0"))

	require.ErrorContains(t, CheckPort("192.0.2.1:80"), "this machine does not have the address 192.0.2.1; run: ")
}

// listenElsewhere makes another process listen on an address and returns its id.
func listenElsewhere(t *testing.T, address string) int {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Skip(err)
	}
	require.NoError(t, err)
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{file}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.NoError(t, file.Close())
	require.NoError(t, listener.Close())
	return cmd.Process.Pid
}

// Each port is taken at two addresses, by two processes; the error names the one that conflicts.
func TestTheOwnerOfAPortIsThatOfTheAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 is Linux's")
	}
	for name, tc := range map[string]struct{ mine, other, wanted, says string }{
		"the address itself":  {"127.0.0.2", "127.0.0.1", "127.0.0.2", ""},
		"all of the machine":  {"0.0.0.0", "", "127.0.0.1", ", which listens on [::]:"},
		"IPv6":                {"::1", "127.0.0.1", "::1", ""},
		"all, also over IPv6": {"::", "", "127.0.0.1", ", which listens on [::]:"},
		"one of those wanted": {"127.0.0.1", "", "0.0.0.0", ", which listens on 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			free, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
			require.NoError(t, free.Close())
			if tc.other != "" {
				listenElsewhere(t, net.JoinHostPort(tc.other, port))
			}
			pid := listenElsewhere(t, net.JoinHostPort(tc.mine, port))
			err = CheckPort(net.JoinHostPort(tc.wanted, port))
			require.ErrorContains(t, err, fmt.Sprintf("is taken by process %d (sleep)%s", pid, tc.says))
			require.ErrorContains(t, err, "; stop it")
			if tc.says == "" {
				assert.NotContains(t, err.Error(), "which listens on")
			}
		})
	}
}

func TestAListenerElsewhereIsNotInTheWay(t *testing.T) {
	for name, tc := range map[string]struct {
		listener, wanted string
		clash            int
	}{
		"another address":                    {"127.0.0.2:80", "127.0.0.1:80", apart},
		"another port":                       {"0.0.0.0:81", "127.0.0.1:80", apart},
		"another family":                     {"0.0.0.0:80", "[::1]:80", apart},
		"all of IPv4, and one of it":         {"0.0.0.0:80", "127.0.0.1:80", within},
		"all of IPv4, and all of both":       {"0.0.0.0:80", "[::]:80", equally},
		"one of IPv6, and all that Go takes": {"[::1]:80", "0.0.0.0:80", partly},
		"mapped":                             {"[::ffff:127.0.0.1]:80", "127.0.0.1:80", equally},
	} {
		assert.Equal(t, tc.clash, clash(netip.MustParseAddrPort(tc.listener), netip.MustParseAddrPort(tc.wanted)), name)
	}
	assert.Equal(t, partly, clash(netip.MustParseAddrPort("127.0.0.1:80"), netip.AddrPortFrom(netip.Addr{}, 80)), "a port alone is all addresses")
}

func TestEveryTakenPortOfANodeIsNamed(t *testing.T) {
	const number = 9
	for _, need := range needs(number)[:2] {
		listener, err := net.Listen("tcp", need.address)
		if err != nil {
			t.Skip(err) // as where 127.0.0.9 is not an address
		}
		defer listener.Close()
	}
	err := checkPorts(number)
	require.ErrorContains(t, err, "node 9 cannot listen for CQL clients")
	require.ErrorContains(t, err, "node 9 cannot listen for other nodes")
	assert.Equal(t, []string{"127.0.0.1:9042", "127.0.0.1:7000", "127.0.0.1:7199", "127.0.0.2:9042", "127.0.0.2:7000", "127.0.0.1:7200"}, Addresses(2))
}
