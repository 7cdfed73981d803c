package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/fake"
	"github.com/qosproxy/qosproxy/internal/reload"
	"github.com/qosproxy/qosproxy/internal/server"
)

// fakeShutdown is how long the shutdown waits for requests in-flight. A test that ends
// the fake does not wait for a delay that it asked for.
const fakeShutdown = 2 * time.Second

// fakeOptions are the flags of the command fake.
type fakeOptions struct {
	data              string
	grpc, http, admin string
}

func newFake() *cobra.Command {
	var o fakeOptions
	cmd := &cobra.Command{
		Use:   "fake --data FILE",
		Short: "Answer lookups from a file, for tests without Cassandra",
		Long: `fake is the proxy with its rows in memory: the listeners, statuses, limits and errors
are the real ones, the rows and faults are those of a YAML file. A request may ask for
faults of its own by the header or metadata qosproxy-fake, such as

  status=TIMED_OUT;keys=sku-9     delay=40ms     refuse

It prints a line for each listener, with its address, as soon as it listens. Port 0 takes a
free one. It reads the file again when it changes, and on SIGHUP; a mistake changes nothing.

api/fake.md describes the file.`,
		Example: `  qosproxy fake --data api/fake.yaml
  qosproxy fake --data rows.yaml --grpc 127.0.0.1:0 --http off`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error { return runFake(cmd.Context(), &o, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "file with tables, rows and faults (required)")
	flags.StringVar(&o.grpc, "grpc", "127.0.0.1:50051", "address of gRPC: HOST:PORT, unix:///PATH or off")
	flags.StringVar(&o.http, "http", "127.0.0.1:8080", "address of HTTP/JSON, or off")
	flags.StringVar(&o.admin, "admin", "off", "address of /livez and /readyz, or off")
	return cmd
}

func runFake(ctx context.Context, o *fakeOptions, out io.Writer) error {
	if o.data == "" {
		return command.Usagef("--data is missing: give the file with tables and rows; api/fake.yaml is an example")
	}
	cfg, err := o.listeners()
	if err != nil {
		return command.Usage(err)
	}
	// Before the file is read, so that no signal ends a fake that is about to listen.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	reloads := reload.Config{Files: []string{o.data}, Signal: hangup, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	var answers *fake.Fake
	reloads.Load = func() ([]string, error) {
		data, err := fake.Load(o.data)
		if err == nil {
			answers.Replace(data)
		}
		return []string{o.data}, err
	}
	reloader, err := reload.New(reloads)
	if err != nil {
		return err
	}
	data, err := fake.Load(o.data)
	if err != nil {
		return command.Usage(err)
	}
	answers = fake.New(data)
	defer answers.Close()
	s := server.New(cfg, server.Deps{Lookup: answers, HTTPContext: fake.HTTPContext})
	if err := s.Start(ctx); err != nil {
		return err
	}
	o.announce(out, s, data)
	return serveFake(ctx, s, reloader)
}

// serveFake serves until ctx ends or a listener fails.
func serveFake(ctx context.Context, s *server.Server, reloader *reload.Reloader) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var reloading sync.WaitGroup
	reloading.Go(func() { reloader.Run(background) })
	defer reloading.Wait()
	defer stop()
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-s.Failed():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), fakeShutdown)
	defer cancel()
	if err := s.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(failed, err)
	}
	return failed
}

// listeners returns the addresses to listen at.
func (o *fakeOptions) listeners() (server.Config, error) {
	var cfg server.Config
	for _, l := range []struct {
		flag, address string
		to            *server.Listener
	}{{"--grpc", o.grpc, &cfg.GRPC}, {"--http", o.http, &cfg.HTTP}, {"--admin", o.admin, &cfg.Admin}} {
		if l.address == "off" || l.address == "" {
			continue
		}
		if err := config.CheckAddress(l.address); err != nil {
			return cfg, fmt.Errorf("%s %w", l.flag, err)
		}
		l.to.Address = l.address
	}
	if cfg.GRPC.Address == "" && cfg.HTTP.Address == "" {
		return cfg, errors.New("--grpc and --http are both off: nothing would be served")
	}
	return cfg, nil
}

// announce prints the address of each listener, one per line.
func (o *fakeOptions) announce(out io.Writer, s *server.Server, data *fake.Data) {
	var b strings.Builder
	for _, name := range []string{"grpc", "http", "admin"} {
		if addr := s.Addr(name); addr != nil {
			text := addr.String()
			if addr.Network() == "unix" {
				text = "unix://" + text
			}
			fmt.Fprintf(&b, "%-5s %s\n", name, text)
		}
	}
	tables, rows := data.Counts()
	fmt.Fprintf(&b, "%d tables, %d rows of %s\n", tables, rows, o.data)
	_, _ = io.WriteString(out, b.String())
}
