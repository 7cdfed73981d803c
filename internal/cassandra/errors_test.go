package cassandra

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFailedConnectionSaysWhatToCheck(t *testing.T) {
	for name, test := range map[string]struct {
		err           error
		cause, remedy string
	}{
		"refused":                        {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused", "cassandra.contact_points"},
		"no answer":                      {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "no answer", "cassandra.contact_points"},
		"another failure of the network": {&net.OpError{Op: "dial", Err: errors.New("no route")}, "no route", "cassandra.contact_points"},
		"a password":                     {answer{gocql.ErrCodeCredentials, "bad credentials"}, "bad credentials", "cassandra.username and cassandra.password_file"},
		"an authenticator":               {errors.New("gocql: unexpected authenticator \"x\""), "unexpected authenticator \"x\"", "cassandra.username and cassandra.password_file"},
		"a certificate nobody knows":     {x509.UnknownAuthorityError{}, "certificate signed by unknown authority", "cassandra.tls"},
		"a certificate without a name": {&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "10.0.0.1"}},
			"doesn't contain any IP SANs", "cassandra.tls (server_name if the certificates share a name, verify: ca if they name no node)"},
		"a certificate that is over": {x509.CertificateInvalidError{Reason: x509.Expired}, "expired", "cassandra.tls"},
		"no TLS":                     {errors.New("tls: first record does not look like a TLS handshake"), "first record", "cassandra.tls"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, plainCause(test.err), test.cause)
			assert.Equal(t, test.remedy, remedy(test.err))
		})
	}
	c := &Cluster{cfg: quiet("127.0.0.1:1")}
	c.cfg.LocalDC = "dc9"
	require.ErrorContains(t, c.explain(errors.New("host was filtered: x"), nil), `datacenter "dc9"`)
	require.ErrorContains(t, c.explain(errors.New("odd"), nil), "connect to 127.0.0.1:1: odd")
	require.ErrorIs(t, c.explain(context.Canceled, nil), errClosed)
}

func TestStatementsAreShortenedInMessages(t *testing.T) {
	assert.Equal(t, "SELECT a FROM t", headline("SELECT a\n  FROM t"))
	long := headline(strings.Repeat("word ", 40))
	assert.LessOrEqual(t, len(long), 63)
	assert.True(t, strings.HasSuffix(long, "…"))
}

// A refresh starts when no event has come for a while, and within a second in any case.
func TestEventsAreWaitedForUntilTheyCease(t *testing.T) {
	for name, test := range map[string]struct {
		every time.Duration
		count int
		want  time.Duration
	}{
		"one":            {0, 0, eventQuiet},
		"three in a row": {eventQuiet / 2, 3, 3*eventQuiet/2 + eventQuiet},
		"without end":    {eventQuiet / 2, 1000, eventPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Cluster{kicked: make(chan struct{}, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					for range test.count {
						time.Sleep(test.every)
						if ctx.Err() != nil {
							return
						}
						c.announced()
					}
				}()
				begin := time.Now()
				c.settleDown(ctx)
				assert.Equal(t, test.want, time.Since(begin))
				cancel()
				time.Sleep(time.Second)
			})
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	(&Cluster{kicked: make(chan struct{}, 1)}).settleDown(ended)
}

func TestAHostThatRefusesIsToldOnceAndThatItIsBackOnce(t *testing.T) {
	var out bytes.Buffer
	changed := 0
	w := &watcher{changed: func() { changed++ }, log: slog.New(slog.NewTextHandler(&out, nil))}
	host := &gocql.HostInfo{}
	refuse := gocql.ObservedConnect{Host: host, Err: syscall.ECONNREFUSED}
	w.ObserveConnect(refuse)
	assert.Zero(t, changed, "while the session is being opened it is for whoever opens it")
	assert.Len(t, w.failures(), 1)
	w.ObserveConnect(gocql.ObservedConnect{Host: host})
	w.live.Store(true)
	for range 3 {
		w.ObserveConnect(refuse)
	}
	for range 3 {
		w.ObserveConnect(gocql.ObservedConnect{Host: host})
	}
	assert.Equal(t, 2, changed)
	assert.Equal(t, 1, strings.Count(out.String(), "does not take connections"))
	assert.Equal(t, 1, strings.Count(out.String(), "takes connections again"))
	assert.Empty(t, w.failures())
}
