package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
)

func newHealth() *cobra.Command {
	var configFile, cert, key string
	var live bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running proxy whether it is ready",
		Long: `health asks the admin listener of the proxy on this machine. It exits 0 when the proxy
is ready for lookups, and 1 with the reason when it is not. It is the probe of a
container that has no other program. --live asks whether the process is alive, which it
is also while Cassandra is down. Of the configuration only the admin listener counts: a
proxy goes on when its file gets a mistake.`,
		Example: `  qosproxy health --config /etc/qosproxy/qosproxy.yaml
  qosproxy health --live --timeout 1s`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return command.Usagef("--timeout %s: use a duration above 0", timeout)
			}
			listen, err := config.LoadAdmin(configFile, os.Environ())
			if err != nil {
				return command.Usage(err)
			}
			if (cert == "") != (key == "") {
				return command.Usagef("--cert and --key go together; set both")
			}
			client, url, err := adminClient(listen, cert, key)
			if err != nil {
				return command.Usage(err)
			}
			path := "/readyz"
			if live {
				path = "/livez"
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			answer, err := probe(ctx, client, url+path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), answer)
			return err
		},
	}
	command.ConfigFlag(cmd, &configFile)
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the process is alive, whether or not it is ready")
	cmd.Flags().StringVar(&cert, "cert", "", "PEM file of a client's certificate, where the listener asks for one (default: that of listen.tls.admin)")
	cmd.Flags().StringVar(&key, "key", "", "PEM file of the client's key")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "longest time to wait for the answer")
	return cmd
}

// probe returns the body that the URL answers. Any status but 200 is an error.
func probe(ctx context.Context, client *http.Client, url string) (string, error) {
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		if remedy := tlsRemedy(err.Error()); remedy != "" {
			return "", fmt.Errorf("ask the admin listener: %w; %s", err, remedy)
		}
		return "", fmt.Errorf("ask the admin listener: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return "", fmt.Errorf("read what the admin listener answers: %w", err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return text, nil
}

// adminClient returns a client of the admin listener on this machine, and its URL without a
// path. If the listener requires client certificates, the client uses that of the files, or
// if these are empty the listener's own.
func adminClient(l config.Listen, certFile, keyFile string) (*http.Client, string, error) {
	if l.Admin == "" {
		return nil, "", errors.New("listen.admin is off; give it an address, which is where health is asked")
	}
	network, host := "unix", "127.0.0.1"
	address, unix := strings.CutPrefix(l.Admin, "unix://")
	if !unix {
		name, port, err := net.SplitHostPort(l.Admin)
		if err != nil {
			return nil, "", fmt.Errorf("listen.admin: %w", err)
		}
		network, host = "tcp", net.JoinHostPort(loopback(name), port)
		address = host
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	}
	own := l.TLS.Admin
	if own.CertFile == "" {
		return &http.Client{Transport: transport}, "http://" + host, nil
	}
	// The certificate names the proxy as others call it, not the loopback address, so it is
	// not verified. Nothing secret is sent.
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	if own.ClientCAFile != "" {
		where := "--cert, --key"
		if certFile == "" {
			where, certFile, keyFile = "listen.tls.admin", own.CertFile, own.KeyFile
		}
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", where, err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{certificate}
	}
	return &http.Client{Transport: transport}, "https://" + host, nil
}

// loopback returns where this machine reaches a listener at host.
func loopback(host string) string {
	ip := net.ParseIP(host)
	switch {
	case host == "":
		return "127.0.0.1"
	case ip == nil || !ip.IsUnspecified():
		return host
	case ip.To4() == nil:
		return "::1"
	}
	return "127.0.0.1"
}
