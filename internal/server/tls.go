package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// TLS names the certificate files of a listener. Server.Prepare reads them again.
type TLS struct {
	// CertFile and KeyFile are PEM files; both or none.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of the authorities that must have signed the
	// certificates of clients; empty asks clients for none.
	ClientCAFile string
}

// listenerTLS is the TLS configuration of one listener. It can be replaced while
// the listener is in use.
type listenerTLS struct {
	alpn    []string
	current atomic.Pointer[tls.Config]
}

// config returns a configuration that follows i: a handshake uses what is current
// when it begins.
func (i *listenerTLS) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: i.alpn,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return i.current.Load(), nil
		},
	}
}

// notAfter returns when the certificate expires.
func (i *listenerTLS) notAfter() time.Time {
	if leaf := i.current.Load().Certificates[0].Leaf; leaf != nil {
		return leaf.NotAfter
	}
	return time.Time{}
}

// CertificatesNotAfter returns when the certificates in use expire, by name of the
// listener. Listeners without TLS are left out.
func (s *Server) CertificatesNotAfter() map[string]time.Time {
	out := make(map[string]time.Time, len(s.secured))
	for name, i := range s.secured {
		out[name] = i.notAfter()
	}
	return out
}

// Prepare reads the certificate files of a configuration again. New connections use
// them, and its MaxConnections, after commit; the rest of cfg is ignored. If a file
// cannot be used the error says which, and nothing changes. A listener starts or
// stops using TLS only when it is bound. Call Prepare after Start.
func (s *Server) Prepare(cfg Config) (commit func(), err error) {
	next := map[*listenerTLS]*tls.Config{}
	var errs []error
	for name, l := range cfg.listeners() {
		i, secured := s.secured[name]
		if !secured || l.TLS.CertFile == "" {
			continue
		}
		loaded, err := l.TLS.load(i.alpn)
		if err != nil {
			errs = append(errs, fmt.Errorf("listen.tls.%s: %w", name, err))
		}
		next[i] = loaded
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func() {
		for i, loaded := range next {
			i.current.Store(loaded)
		}
		s.maxConnections.Store(int64(cfg.Limits.orDefault().MaxConnections))
	}, nil
}

// Check returns why certificate files of the listeners cannot be used; nil if all can.
func (c Config) Check() error {
	var errs []error
	for name, l := range c.listeners() {
		if l.TLS.CertFile == "" {
			continue
		}
		if _, err := l.TLS.load(nil); err != nil {
			errs = append(errs, fmt.Errorf("listen.tls.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (t TLS) load(alpn []string) (*tls.Config, error) {
	if t.KeyFile == "" {
		return nil, errors.New("cert_file is set without key_file; set both")
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load cert_file %s with key_file %s: %w", t.CertFile, t.KeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: alpn, Certificates: []tls.Certificate{pair}}
	if t.ClientCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read client_ca_file: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client_ca_file %s holds no PEM certificate", t.ClientCAFile)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	// A ticket would admit a client whose authority is no longer trusted.
	config.SessionTicketsDisabled = true
	return config, nil
}
