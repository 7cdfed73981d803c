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
}

// accessor returns the access of a connection that begins now. A configuration
// that is asked for each connection needs no tricks with the callbacks of
// crypto/tls, which would mean to verify certificates by hand.
func (c Config) accessor() func() Access {
	if c.Access != nil {
		return c.Access
	}
	fixed := Access{Username: c.Username, Password: c.Password, TLS: c.TLS}
	return func() Access { return fixed }
}

// hostDialer connects to hosts with the access of the moment.
type hostDialer struct {
	dialer    net.Dialer
	access    func() Access
	incidents *incident.Log
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
	config := d.access().TLS
	if config != nil && config.InsecureSkipVerify {
		config = config.Clone()
		config.InsecureSkipVerify = false
	}
	if dialed, err = gocql.WrapTLS(ctx, conn, host.HostnameAndPort(), config); err != nil {
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
