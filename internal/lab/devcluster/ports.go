package devcluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// need is an address that a node listens on.
type need struct{ what, address string }

// needs returns what node number listens on.
func needs(number int) []need {
	ip := fmt.Sprintf("127.0.0.%d", number)
	return []need{
		{"CQL clients", net.JoinHostPort(ip, strconv.Itoa(cqlPort))},
		{"other nodes", net.JoinHostPort(ip, strconv.Itoa(storagePort))},
		{"JMX", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstJMXPort+number-1))},
	}
}

// Addresses returns the addresses on which the first so many nodes of a cluster listen, each
// host:port.
func Addresses(nodes int) []string {
	var all []string
	for number := range nodes {
		for _, n := range needs(number + 1) {
			all = append(all, n.address)
		}
	}
	return all
}

// checkPorts fails when ports that node number needs cannot be listened on, and says why of
// each.
func checkPorts(number int) error {
	var taken []error
	for _, n := range needs(number) {
		if err := CheckPort(n.address); err != nil {
			taken = append(taken, fmt.Errorf("devcluster: node %d cannot listen for %s: %w", number, n.what, err))
		}
	}
	return errors.Join(taken...)
}

// CheckPort fails when a TCP address of this machine, host:port, cannot be listened on, as a
// program would that listens on it next. The error says by whom it is taken, where the system
// tells it, and what to do.
func CheckPort(address string) error {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %s is taken by %s; stop it", address, cmp.Or(portOwner(resolved.AddrPort()), "another program"))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		ip := resolved.IP.String()
		return fmt.Errorf("this machine does not have the address %s; run: %s", ip, aliasCommand(ip))
	default:
		return fmt.Errorf("port %s: %w", address, err)
	}
}

// How a listener stands in the way of an address.
const (
	apart   = iota // it does not
	partly         // the address is all of this machine, the listener on one of its
	within         // the listener is on all addresses of this machine
	equally        // the listener is on the address itself
)

// clash returns how a listener stands in the way of an address that is to be listened on. All
// addresses of IPv4 are those of IPv6 as well for a program in Go, and a port alone is both.
func clash(listener, wanted netip.AddrPort) int {
	has, wants := listener.Addr().Unmap(), wanted.Addr().Unmap()
	all := !wants.IsValid() || wants.IsUnspecified()
	switch {
	case listener.Port() != wanted.Port():
		return apart
	case has == wants || all && has.IsUnspecified():
		return equally
	case has == netip.IPv6Unspecified(), has.IsUnspecified() && wants.Is4():
		return within
	case all:
		return partly
	}
	return apart
}
