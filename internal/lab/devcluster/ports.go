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

// needs returns the addresses on which this node listens.
func needs(number int) []need {
	ip := fmt.Sprintf("127.0.0.%d", number)
	return []need{
		{"CQL clients", net.JoinHostPort(ip, strconv.Itoa(cqlPort))},
		{"other nodes", net.JoinHostPort(ip, strconv.Itoa(storagePort))},
		{"JMX", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstJMXPort+number-1))},
	}
}

// Addresses returns the addresses, host:port, on which the first nodes of a cluster listen.
func Addresses(nodes int) []string {
	var all []string
	for number := range nodes {
		for _, n := range needs(number + 1) {
			all = append(all, n.address)
		}
	}
	return all
}

// checkPorts returns an error for each address that this node needs and cannot listen on.
func checkPorts(number int) error {
	var taken []error
	for _, n := range needs(number) {
		if err := CheckPort(n.address); err != nil {
			taken = append(taken, fmt.Errorf("devcluster: node %d cannot listen for %s: %w", number, n.what, err))
		}
	}
	return errors.Join(taken...)
}

// CheckPort returns an error if no program can listen on a TCP address of this machine, host:port.
// The error says who has the address, where the system reveals it, and what to do.
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

// How a listener conflicts with an address, from not at all to entirely.
const (
	apart   = iota // there is no conflict
	partly         // the wanted address is the unspecified one, the listener is on a specific one
	within         // the listener is on the unspecified address
	equally        // the listener is on the address itself
)

// clash returns how a listener conflicts with a wanted address. In Go the unspecified IPv6 address,
// and a port alone, cover all IPv4 addresses too.
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
