package devcluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// checkPorts fails when one of the ports that node number needs cannot be
// listened on, and says why.
func checkPorts(number int) error {
	ip := fmt.Sprintf("127.0.0.%d", number)
	for _, need := range []struct {
		what string
		ip   string
		port int
	}{
		{"CQL clients", ip, cqlPort},
		{"other nodes", ip, storagePort},
		{"JMX", "127.0.0.1", firstJMXPort + number - 1},
	} {
		if err := checkPort(need.ip, need.port); err != nil {
			return fmt.Errorf("devcluster: node %d cannot listen for %s: %w", number, need.what, err)
		}
	}
	return nil
}

// CheckPort fails when a TCP port of an address of this machine, host:port, cannot be
// listened on. The error says by whom the port is taken, where the system tells it,
// and what to do.
func CheckPort(address string) error {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	return checkPort(host, port)
}

func checkPort(ip string, port int) error {
	address := net.JoinHostPort(ip, strconv.Itoa(port))
	listener, err := net.Listen("tcp4", address)
	switch {
	case err == nil:
		return listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		owner := portOwner(port)
		if owner == "" {
			owner = "another program"
		}
		return fmt.Errorf("port %s is taken by %s; stop it", address, owner)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("this machine does not have the address %s; run: %s", ip, aliasCommand(ip))
	default:
		return fmt.Errorf("port %s: %w", address, err)
	}
}
