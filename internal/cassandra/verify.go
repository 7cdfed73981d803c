package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// resolver is the part of net.Resolver that finds the names of a node.
type resolver interface {
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// secure returns the TLS configuration of one connection to a host, nil for a plain one. crypto/tls
// itself checks a configured server name. It cannot check only the chain, or one of several names,
// so VerifyConnection replaces its check then, for resumed sessions as well.
func (d *hostDialer) secure(ctx context.Context, a Access, host *gocql.HostInfo) *tls.Config {
	if a.TLS == nil {
		return nil
	}
	out := a.TLS.Clone()
	out.InsecureSkipVerify = a.AnyName || out.ServerName == ""
	if !out.InsecureSkipVerify {
		return out
	}
	out.VerifyConnection = func(state tls.ConnectionState) error {
		leaf := state.PeerCertificates[0]
		err := chain(out, state.PeerCertificates)
		if err == nil && !a.AnyName {
			err = d.named(ctx, leaf, host.ConnectAddress(), out.RootCAs != nil)
		}
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
	return out
}

// chain checks that the first certificate is issued by the authorities of a configuration, is valid
// now, and is for a server.
func chain(config *tls.Config, certificates []*x509.Certificate) error {
	options := x509.VerifyOptions{
		Roots: config.RootCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if config.Time != nil {
		options.CurrentTime = config.Time()
	}
	for _, c := range certificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := certificates[0].Verify(options)
	return err
}

// named checks that a certificate carries the address of its node, or a name of the node that
// resolves to the address. Names of the node are those of the contact points and, when the
// authorities are the cluster's own, those that a reverse lookup returns.
func (d *hostDialer) named(ctx context.Context, leaf *x509.Certificate, ip net.IP, own bool) error {
	refusal := leaf.VerifyHostname(ip.String())
	if refusal == nil || len(leaf.DNSNames) == 0 {
		return refusal
	}
	names := d.points
	if own {
		told, err := d.resolver.LookupAddr(ctx, ip.String())
		if err != nil {
			refusal = fmt.Errorf("%w; reverse lookup: %w", refusal, err)
		}
		names = slices.Concat(names, told)
	}
	address, _ := netip.AddrFromSlice(ip)
	for _, name := range names {
		name = strings.TrimSuffix(name, ".")
		if leaf.VerifyHostname(name) != nil {
			continue
		}
		resolved, err := d.resolver.LookupNetIP(ctx, "ip", name)
		if slices.ContainsFunc(resolved, func(a netip.Addr) bool { return a.Unmap() == address.Unmap() }) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s resolves to other addresses", name)
		}
		refusal = fmt.Errorf("%w; %w", refusal, err)
	}
	return refusal
}
