package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/identity"
)

// proxyFlags are the flags for the proxy that a command asks, and for the identity of
// the caller.
type proxyFlags struct {
	addr  string
	token string // the file
	tlsFlags
}

func (f *proxyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "addr", "127.0.0.1:50051", "gRPC address of the proxy: HOST:PORT or unix:///PATH")
	f.tlsFlags.add(flags, "--addr")
	flags.StringVar(&f.token, "token-file", "", "file whose first line is the bearer token of the client; without TLS it is sent unencrypted")
}

// dial returns a client of the proxy. It does not connect yet.
func (f *proxyFlags) dial() (*qosproxy.Client, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	options := qosproxy.Options{PlaintextToken: true, TLS: config}
	if f.token != "" {
		tokens, err := identity.ReadTokens(f.token)
		if err != nil {
			return nil, command.Usagef("--token-file: %w", err)
		}
		options.Token = func() (string, error) { return tokens[0], nil }
	}
	client, err := qosproxy.Dial(f.addr, options)
	if err != nil {
		return nil, command.Usagef("--addr %q: %w", f.addr, err)
	}
	return client, nil
}

// explainError converts an error of a call to one that says what to do.
func (f *proxyFlags) explainError(err error) error {
	s := status.Convert(err)
	switch {
	case s.Code() == codes.Unavailable && len(s.Details()) == 0:
		return f.explainConnection(s.Message())
	case s.Code() == codes.DeadlineExceeded && len(s.Details()) == 0:
		return fmt.Errorf("no answer from %s in time: %s", f.addr, s.Message())
	case s.Code() == codes.Unauthenticated && f.token == "":
		return fmt.Errorf("%s (--token-file takes the token, --cert and --key a certificate)", s.Message())
	default:
		return errors.New(s.Message())
	}
}

// explainConnection returns an error that says what to do if a proxy cannot be reached.
func (f *proxyFlags) explainConnection(message string) error {
	if remedy := tlsRemedy(message); remedy != "" {
		return fmt.Errorf("no TLS connection to %s: %s (%s)", f.addr, remedy, message)
	}
	if strings.Contains(message, "health check failed") {
		return fmt.Errorf("the proxy at %s is not ready: /readyz of its admin listener says why", f.addr)
	}
	if closed(message) {
		return fmt.Errorf("the listener at %s closes the connection: %s (%s)", f.addr, f.whyClosed(), message)
	}
	return fmt.Errorf("no proxy answers at %s: %s; is qosproxy serve running, and is this its listen.grpc?", f.addr, message)
}

// closed reports whether message means that the other side closed a connection after it
// was made. A proxy says why it refuses a certificate only after the handshake, and
// writes of the client may fail before it has read that.
func closed(message string) bool {
	for _, sign := range []string{"broken pipe", "connection reset", "server preface", "EOF"} {
		if strings.Contains(message, sign) {
			return true
		}
	}
	return false
}

// whyClosed returns why a listener may close connections that are made with these
// flags.
func (f *proxyFlags) whyClosed() string {
	switch {
	case !f.encrypted():
		return "if it has a certificate (listen.tls.grpc), add --tls, and --ca for an authority of your own"
	case f.files.Cert == "":
		return "if it asks for a client certificate (client_ca_file), set --cert and --key"
	default:
		return "use a --cert that its client_ca_file signs"
	}
}
