package config

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// unixScheme begins the address of a unix socket.
const unixScheme = "unix://"

// maxSocketPath is how long the path of a unix socket may be: 108 bytes with the
// closing zero on Linux, see unix(7).
const maxSocketPath = 107

func (v *validator) listen(l *Listen) {
	listeners := []struct {
		name, address string
		tls           ServerTLS
	}{
		{"grpc", l.GRPC, l.TLS.GRPC}, {"http", l.HTTP, l.TLS.HTTP}, {"admin", l.Admin, l.TLS.Admin},
	}
	v.check(l.GRPC != "" || l.HTTP != "", "listen", "both grpc and http are off; give one of them an address such as 127.0.0.1:50051")
	v.check(l.SocketMode&0o200 != 0, "listen.socket_mode", "%#o does not give the owner write permission, which a connection needs; use 0660", l.SocketMode)
	v.check(l.MaxRequestBytes > 0, "listen.max_request_bytes", "%s is below 1; use a size such as 4MiB", l.MaxRequestBytes)
	v.check(l.MaxConnections > 0, "listen.max_connections", "%d is below 1; leave it out for 2048", l.MaxConnections)
	v.positive("listen.handshake_timeout", l.HandshakeTimeout, "5s")
	v.positive("listen.write_timeout", l.WriteTimeout, "30s")
	v.positive("listen.idle_timeout", l.IdleTimeout, "5m")
	v.check(l.MaxConnectionAge >= 0, "listen.max_connection_age", "%s is below 0; use 0s for no limit", l.MaxConnectionAge)
	for i, a := range listeners {
		why := badAddress(a.address)
		v.check(why == "", "listen."+a.name, "%q %s", a.address, why)
		for _, b := range listeners[:i] {
			v.check(why != "" || !collide(a.address, b.address), "listen."+a.name,
				"%s is already taken by listen.%s, which has %s; use another port or path", a.address, b.name, b.address)
		}
		tls := "listen.tls." + a.name
		v.certificate(tls, a.tls.CertFile, a.tls.KeyFile)
		v.check(a.tls.ClientCAFile == "" || a.tls.CertFile != "" || a.tls.KeyFile != "", tls+".client_ca_file",
			"is set without a certificate; set cert_file and key_file as well")
	}
}

// CheckAddress returns an error unless address is one that a listener may have: host:port,
// unix:///path or empty.
func CheckAddress(address string) error {
	if why := badAddress(address); why != "" {
		return fmt.Errorf("%q %s", address, why)
	}
	return nil
}

// badAddress returns what is wrong with the address of a listener, empty when
// nothing is.
func badAddress(address string) string {
	if address == "" {
		return ""
	}
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		switch {
		case !filepath.IsAbs(path):
			return "has no absolute path; write unix:///run/qosproxy/grpc.sock, with three slashes"
		case len(path) > maxSocketPath:
			return "has a path of more than 107 bytes, the most that a unix socket can have; shorten it"
		}
		return ""
	}
	if _, _, ok := splitHostPort(address); !ok {
		return "is not an address to listen on; write host:port, such as 127.0.0.1:8080 or :8080, or unix:///path"
	}
	return ""
}

// collide reports whether two listeners cannot both use their addresses. Port 0 gives each
// another free port.
func collide(a, b string) bool {
	hostA, portA, okA := splitHostPort(a)
	hostB, portB, okB := splitHostPort(b)
	if !okA || !okB {
		return a != "" && a == b
	}
	return portA == portB && portA != 0 && (hostA == hostB || wildcard(hostA) || wildcard(hostB))
}

func wildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// splitHostPort splits host:port; it reports false unless the port is a number
// from 0 to 65535.
func splitHostPort(s string) (host string, port int, ok bool) {
	host, digits, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return host, int(n), err == nil
}
