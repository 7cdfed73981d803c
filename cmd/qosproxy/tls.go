package main

import (
	"crypto/tls"
	"strings"

	"github.com/spf13/pflag"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	"github.com/qosproxy/qosproxy/internal/command"
)

// tlsFlags are the flags for the encryption of a connection and the certificate of the
// client.
type tlsFlags struct {
	on    bool
	files qosproxy.TLSFiles
}

// add adds the flags; address is the name of the flag that gives the address to connect
// to.
func (f *tlsFlags) add(flags *pflag.FlagSet, address string) {
	flags.BoolVar(&f.on, "tls", false, "connect by TLS (implied by the other TLS flags)")
	flags.StringVar(&f.files.CA, "ca", "", "PEM file of the authorities that sign the proxy's certificate (default: the system's)")
	flags.StringVar(&f.files.Cert, "cert", "", "PEM file of the client's certificate")
	flags.StringVar(&f.files.Key, "key", "", "PEM file of the client's key")
	flags.StringVar(&f.files.ServerName, "server-name", "", "name in the proxy's certificate (default: the host of "+address+")")
}

// encrypted reports whether the connection uses TLS.
func (f *tlsFlags) encrypted() bool { return f.on || f.files != (qosproxy.TLSFiles{}) }

// config returns the configuration of the connection; nil without TLS. Its errors are
// usage errors.
func (f *tlsFlags) config() (*tls.Config, error) {
	if !f.encrypted() {
		return nil, nil
	}
	if (f.files.Cert == "") != (f.files.Key == "") {
		return nil, command.Usagef("--cert and --key go together; set both")
	}
	config, err := f.files.Load()
	if err != nil {
		return nil, command.Usagef("--ca, --cert, --key: %w", err)
	}
	return config, nil
}

// tlsTroubles is what to do about a connection that failed, by a part of its error.
var tlsTroubles = []struct{ holds, remedy string }{
	{"first record does not look like a TLS handshake", "it answers without TLS: leave --tls, --ca, --cert, --key and --server-name out"},
	{"server gave HTTP response to HTTPS client", "it answers without TLS: leave --tls, --ca, --cert, --key and --server-name out"},
	{"certificate required", "it asks for a client certificate: set --cert and --key"},
	{"unknown certificate authority", "it does not trust the authority of --cert: use a certificate that its client_ca_file signs"},
	{"bad certificate", "it refuses the client certificate: use one that its client_ca_file signs"},
	{"signed by unknown authority", "its certificate is not signed by an authority that is trusted here: set --ca to that authority"},
	{"certificate is valid for", "its certificate has another name: set --server-name to one of these"},
	{"cannot validate certificate for", "its certificate does not have this address: set --server-name to a name that it has"},
	{"certificate has expired or is not yet valid", "its certificate is out of date: renew it, or set the clock of this machine"},
}

// tlsRemedy returns what to do about an error of a connection; empty if TLS is not the
// cause.
func tlsRemedy(message string) string {
	for _, t := range tlsTroubles {
		if strings.Contains(message, t.holds) {
			return t.remedy
		}
	}
	return ""
}
