package cassandra

import (
	"context"
	"fmt"
	"net"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/incident"
)

// authenticators are the classes a password may be sent to. Without such a
// list the driver sends it to whatever the server names.
var authenticators = []string{
	"org.apache.cassandra.auth.PasswordAuthenticator",
	"org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator",
	"com.instaclustr.cassandra.auth.SharedSecretAuthenticator",
	"com.datastax.bdp.cassandra.auth.DseAuthenticator",
	"io.aiven.cassandra.auth.AivenAuthenticator",
	"com.amazon.helenus.auth.HelenusAuthenticator",
}

// driverConfig returns the settings that every session shares. The driver does
// not retry or speculate, which is up to the executor. Nor does it coalesce
// writes, for which every request would wait 200 µs for others.
func driverConfig(cfg Config) *gocql.ClusterConfig {
	d := gocql.NewCluster(cfg.ContactPoints...)
	d.Port = cfg.Port
	d.NumConns = cfg.ConnectionsPerHost
	d.ConnectTimeout = cfg.ConnectTimeout
	d.Timeout = cfg.RequestTimeout
	d.WriteCoalesceWaitTime = 0
	d.Metadata.CacheMode = gocql.Disabled
	d.Logger = driverLogger{cfg.Logger}
	access := cfg.accessor()
	d.HostDialer = &hostDialer{
		dialer: net.Dialer{Timeout: cfg.ConnectTimeout, Control: giveUpOnSilence}, access: access, incidents: cfg.Incidents,
		points: cfg.names(), resolver: net.DefaultResolver,
	}
	d.AuthProvider = func(*gocql.HostInfo) (gocql.Authenticator, error) { return authenticator(access()), nil }
	// One attempt at a time: reconnectInterval brings the next, and a host that
	// refuses must not block its pool's only goroutine for a second.
	d.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1, Interval: 50 * time.Millisecond}
	d.ReconnectInterval = reconnectInterval
	return d
}

// reconnectInterval is how often the driver tries the hosts it has no
// connection to. It decides how soon a restarted node is asked again.
const reconnectInterval = time.Second

// newSession opens a session of the driver, whose constructor takes no context.
// If ctx ends first, the session is closed as soon as it is open.
func newSession(ctx context.Context, d *gocql.ClusterConfig, incidents *incident.Log) (*gocql.Session, error) {
	type opened struct {
		session *gocql.Session
		err     error
	}
	ch := make(chan opened, 1)
	go func() {
		var o opened
		func() {
			defer incidents.Catch(ctx, "opening of a session", &o.err)
			o.session, o.err = gocql.NewSession(*d)
		}()
		ch <- o
	}()
	select {
	case o := <-ch:
		return o.session, o.err
	case <-ctx.Done():
		go func() {
			defer incidents.Catch(ctx, "end of a session", nil)
			if o := <-ch; o.session != nil {
				o.session.Close()
			}
		}()
		return nil, fmt.Errorf("open a session: %w", context.Cause(ctx))
	}
}
