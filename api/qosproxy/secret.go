package qosproxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// TLSFiles are the PEM files of a TLS connection. The zero TLSFiles trust the system's
// authorities and send no certificate.
type TLSFiles struct {
	// CA holds the authorities that sign the certificates of proxies; empty means those
	// of the system.
	CA string
	// Cert and Key are the certificate that identifies the client (mutual TLS) and its
	// key; set both or neither. They are read again for each connection, so that a
	// certificate can be renewed.
	Cert, Key string
	// ServerName is the name that the certificates of proxies must have; empty means
	// the host of the target.
	ServerName string
}

// Load returns the configuration for Options.TLS. The error names the file that
// cannot be used.
func (f TLSFiles) Load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
		return config, nil
	case f.Cert == "":
		return nil, errors.New("a key without a certificate; set both")
	case f.Key == "":
		return nil, errors.New("a certificate without a key; set both")
	}
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("load the certificate %s with the key %s: %w", f.Cert, f.Key, err)
		}
		return &pair, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return config, nil
}

// tokenAge is how long a token is used before its file is read again.
const tokenAge = time.Second

// TokenFile returns a function for Options.Token. The token is the first line of the
// file that is neither empty nor a comment (#). The file is read again at most every
// second, so that a token can be replaced; while it cannot be read, the previous token
// is used.
func TokenFile(name string) func() (string, error) {
	var (
		mu    sync.Mutex
		token string
		read  time.Time
	)
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) < tokenAge && token != "" {
			return token, nil
		}
		read = time.Now()
		next, err := firstLine(name)
		if err != nil && token == "" {
			return "", err
		}
		if err == nil {
			token = next
		}
		return token, nil
	}
}

func firstLine(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line, nil
		}
	}
	return "", fmt.Errorf("%s holds no token", name)
}
