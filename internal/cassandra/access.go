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

// Access is how a connection shows who it is, and checks whom it has reached.
type Access struct {
	// Username and Password authenticate; an empty Username means no
	// authentication.
	Username string
	Password secret.Text
	// TLS is the client's side of TLS, or nil for plain connections. It is
	// never changed once it has been handed over.
	TLS *tls.Config
	// AnyName accepts every server certificate of the authorities of TLS, also one that names
	// another node or none.
	AnyName bool
}

// accessor returns the access of a connection that begins now.
func (c Config) accessor() func() Access {
	if c.Access != nil {
		return c.Access
	}
	fixed := Access{Username: c.Username, Password: c.Password, TLS: c.TLS, AnyName: c.AnyName}
	return func() Access { return fixed }
}

// hostDialer connects to hosts with the access of the moment.
type hostDialer struct {
	dialer    net.Dialer
	access    func() Access
	incidents *incident.Log
	// points are the names among the contact points, and resolver says whose names they are.
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
	// The context of the driver ends with its session: a host that accepts and says nothing
	// would be waited for until then.
	ctx, cancel := context.WithTimeout(ctx, d.dialer.Timeout)
	defer cancel()
	if dialed, err = gocql.WrapTLS(ctx, conn, host.HostnameAndPort(), d.secure(ctx, d.access(), host)); err != nil {
		return nil, err
	}
	dialed.Conn = newBufferedConn(dialed.Conn)
	return dialed, nil
}

// authenticator returns what answers the challenge of a host, nil when there is
// nothing to answer with.
func authenticator(a Access) gocql.Authenticator {
	if a.Username == "" {
		return nil
	}
	return gocql.PasswordAuthenticator{
		Username: a.Username, Password: a.Password.Reveal(), AllowedAuthenticators: authenticators,
	}
}
