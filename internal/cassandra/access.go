package cassandra

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/secret"
)

// Access is how a connection authenticates itself and verifies its host.
type Access struct {
	// Username and Password authenticate; an empty Username means no
	// authentication.
	Username string
	Password secret.Text
	// TLS is the TLS configuration of the client, or nil for plain connections. It must not be
	// changed once it has been handed over.
	TLS *tls.Config
	// AnyName accepts every server certificate of the authorities of TLS, even one that names
	// another node or none.
	AnyName bool
}

// accessor returns the function that gives each new connection its Access.
func (c Config) accessor() func() Access {
	if c.Access != nil {
		return c.Access
	}
	fixed := Access{Username: c.Username, Password: c.Password, TLS: c.TLS, AnyName: c.AnyName}
	return func() Access { return fixed }
}

// hostDialer connects to hosts with the Access that is current at that moment.
type hostDialer struct {
	dialer    net.Dialer
	access    func() Access
	incidents *incident.Log
	// points are the contact points that are names; resolver looks up names.
	points   []string
	resolver resolver
}

var _ gocql.HostDialer = (*hostDialer)(nil)

// DialHost implements gocql.HostDialer.
func (d *hostDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (dialed *gocql.DialedHost, err error) {
	defer d.incidents.Catch(ctx, "connection to a host", &err)
	if ip := host.ConnectAddress(); ip == nil || ip.IsUnspecified() || host.Port() == 0 {
		return nil, fmt.Errorf("the host %s has no address to connect to", host.HostID())
	}
	conn, err := d.dialer.DialContext(ctx, "tcp", host.ConnectAddressAndPort())
	if err != nil {
		return nil, err
	}
	// The driver's context ends only with its session: without a timeout, a host that accepts and
	// then stays silent would block until then.
	ctx, cancel := context.WithTimeout(ctx, d.dialer.Timeout)
	defer cancel()
	if dialed, err = gocql.WrapTLS(ctx, conn, host.HostnameAndPort(), d.secure(ctx, d.access(), host)); err != nil {
		return nil, err
	}
	dialed.Conn = newBufferedConn(dialed.Conn)
	return dialed, nil
}

// authenticator returns what answers the challenge of a host, or nil when a has no username.
func authenticator(a Access) gocql.Authenticator {
	if a.Username == "" {
		return nil
	}
	return gocql.PasswordAuthenticator{
		Username: a.Username, Password: a.Password.Reveal(), AllowedAuthenticators: authenticators,
	}
}
