package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is how long a listener trusts its certificate files to be
// unchanged, so that a storm of handshakes does not become a storm of stats.
const certificateCheck = time.Second

// TLS is the certificate of a listener. The files are read again when they
// change, as cert-manager and Kubernetes secrets do it; a change that does not
// parse is logged and the certificate before it stays.
type TLS struct {
	// CertFile and KeyFile are PEM files; both or none.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of the authorities whose clients may connect;
	// empty asks clients for no certificate.
	ClientCAFile string
}

// stamp tells two versions of a file apart.
type stamp struct {
	modified time.Time
	size     int64
}

// reloader keeps the TLS configuration of one listener current.
type reloader struct {
	files TLS
	alpn  []string
	log   *slog.Logger

	mu      sync.Mutex
	checked time.Time
	stamps  [3]stamp
	config  *tls.Config
}

// reloading returns a configuration that follows its files. It fails when the
// files cannot be used now.
func reloading(files TLS, alpn []string, log *slog.Logger) (*tls.Config, error) {
	r := &reloader{files: files, alpn: alpn, log: log, checked: time.Now()}
	r.stamps = r.stat()
	config, err := files.load(alpn)
	if err != nil {
		return nil, err
	}
	r.config = config
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: alpn,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.current(), nil
		},
	}, nil
}

// current returns the configuration for a handshake that begins now.
func (r *reloader) current() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < certificateCheck {
		return r.config
	}
	r.checked = time.Now()
	stamps := r.stat()
	if stamps == r.stamps {
		return r.config
	}
	// The new stamps are kept only when the files parse: certificate and key
	// are replaced one after the other, and a half-replaced pair is tried again.
	config, err := r.files.load(r.alpn)
	if err != nil {
		r.log.Error("changed certificate not used; the one before it stays", "cert_file", r.files.CertFile, "error", err)
		return r.config
	}
	r.stamps, r.config = stamps, config
	r.log.Info("certificate reloaded", "cert_file", r.files.CertFile)
	return r.config
}

func (r *reloader) stat() (stamps [3]stamp) {
	for i, name := range []string{r.files.CertFile, r.files.KeyFile, r.files.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return stamps
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
	return config, nil
}
