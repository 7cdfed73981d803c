package cassandra

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// errClosed means that the Cluster has been closed.
var errClosed = errors.New("the cassandra client is closed")

// connect opens the first session.
func (c *Cluster) connect(ctx context.Context) error {
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	c.session.Store(s)
	return nil
}

// open opens a session for reads.
func (c *Cluster) open(ctx context.Context) (*session, error) {
	types, err := rawTypes()
	if err != nil {
		return nil, err
	}
	w := &watcher{announced: c.announced, changed: c.kick, log: c.log, incidents: c.cfg.Incidents}
	d := driverConfig(c.cfg)
	// The protocol version is negotiated: 5 with servers since 4.0. Compared with
	// 4 it costs a checksum and a copy of every answer, but it reveals that the
	// result of a prepared statement has changed, and its read failures say why.
	d.RegisteredTypes = types
	d.PageSize = 0
	d.MaxPreparedStmts = maxPrepared
	d.FrameHeaderObserver = w
	d.ConnectObserver = w
	d.StreamObserver = streamObserver{}
	// A node is down when connections to it fail, not when the one node of the
	// control connection has not heard from it: the driver would then drop the
	// connections, with the answers in-flight, and wait ten seconds before it
	// opens new ones.
	d.Events.DisableNodeStatusEvents = true
	d.HostFilter = c.cfg.hostFilter(c.keeper.localDC(c.cfg))
	s, err := newSession(ctx, d, c.cfg.Incidents)
	if err != nil {
		return nil, c.explain(err, w.failures())
	}
	w.live.Store(true)
	return &session{driver: s, watcher: w}, nil
}

// maxPrepared is how many prepared statements the driver remembers, each for one
// host. It prepares again what it has forgotten.
const maxPrepared = 20_000

// replace opens a new session in place of one whose view of the cluster does not
// recover by itself. It closes the old one after RequestTimeout, when its reads
// are over.
func (c *Cluster) replace(ctx context.Context) error {
	s, err := c.open(ctx)
	if err != nil {
		return fmt.Errorf("open a new session: %w", err)
	}
	old := c.session.Swap(s)
	if old == nil {
		return nil
	}
	closing := func() {
		t := time.NewTimer(c.cfg.RequestTimeout)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.stopped:
		}
		old.driver.Close()
	}
	c.closing.Go(func() { _ = c.cfg.Incidents.Run(ctx, "end of a session", closing) })
	return nil
}

// explain turns the driver's error into one that says what to do. The driver
// reports only the contact point it tried last; refused has them all.
func (c *Cluster) explain(err error, refused map[string]error) error {
	msg := err.Error()
	switch {
	case errors.Is(err, context.Canceled):
		return errClosed
	case strings.Contains(msg, "host was filtered"):
		return fmt.Errorf("no contact point that answered is in datacenter %s; check cassandra.local_dc and cassandra.contact_points",
			quoted(append([]string{c.keeper.localDC(c.cfg)}, c.cfg.LaterDCs...)))
	case strings.Contains(msg, "failed to resolve"):
		return fmt.Errorf("no contact point could be resolved: %s; check cassandra.contact_points",
			strings.Join(c.cfg.ContactPoints, ", "))
	case len(refused) == 0:
		return fmt.Errorf("connect to %s: %w; check cassandra.contact_points", strings.Join(c.cfg.endpoints(), ", "), err)
	}
	var each []string
	advice := map[string]bool{}
	for _, addr := range slices.Sorted(maps.Keys(refused)) {
		each = append(each, addr+": "+plainCause(refused[addr]))
		advice[remedy(refused[addr])] = true
	}
	return fmt.Errorf("no contact point answered: %s; check %s",
		strings.Join(each, "; "), strings.Join(slices.Sorted(maps.Keys(advice)), ", "))
}

// plainCause returns why a connection failed, without the operation.
func plainCause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		var errno syscall.Errno
		switch {
		case errors.As(op.Err, &errno):
			return errno.Error()
		case op.Timeout():
			return "no answer"
		}
		return op.Err.Error()
	}
	return strings.TrimPrefix(err.Error(), "gocql: ")
}

// remedy names the configuration keys to check after such a failure.
func remedy(err error) string {
	var (
		answer    gocql.RequestError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &answer) && answer.Code() == gocql.ErrCodeCredentials, strings.Contains(err.Error(), "authenticat"):
		return "cassandra.username and cassandra.password_file"
	case errors.As(err, &hostname):
		return "cassandra.tls (server_name if the certificates share a name, verify: ca if they name no node)"
	case errors.As(err, &authority), errors.As(err, &invalid), strings.Contains(err.Error(), "tls: "):
		return "cassandra.tls"
	}
	return "cassandra.contact_points"
}
