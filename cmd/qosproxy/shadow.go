package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/shadow"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// shadowFlags are the flags of the command.
type shadowFlags struct {
	proxy       proxyFlags
	config      string
	table       string
	keys        string
	baseline    string
	concurrency int
	rate        float64
	most        int
	output, out string
}

func newShadow() *cobra.Command {
	var f shadowFlags
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Read lookups by the plain driver and by the proxy, and compare",
		Long: `shadow takes lookups that an application makes today, reads each by the plain driver and
by the proxy, and compares row by row and byte by byte. What differs is read again both ways,
twice, before it counts, for rows may be written meanwhile. It reports differences, keys without an answer,
latency percentiles, statements, and the CPU time of Cassandra where all nodes are on this
machine. It writes nothing to the cluster.

The input has one lookup a line, in the form of the HTTP listener's batchGet and with its table:

  {"table": "shop.products", "keys": ["sku-1", "sku-2"], "columns": ["name"]}

or, with --table, one key a line, of which 50 make a lookup (an empty line ends one earlier).

Without --addr it runs a proxy of that configuration in this process. With --addr it asks a
running one, and needs --config all the same: for the driver.

It exits 1 when a key differs or is unsettled, when a lookup is refused, or when nothing could be
compared.`,
		Example: `  qosproxy shadow --config qosproxy.yaml --keys lookups.jsonl -o html --out report.html
  qosproxy shadow --config qosproxy.yaml --table shop.products --keys keys.txt
  tail -f lookups.jsonl | qosproxy shadow --config qosproxy.yaml --addr proxy.example.org:50051 --rate 20`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	command.ConfigFlag(cmd, &f.config)
	f.proxy.add(cmd.Flags())
	cmd.Flags().Lookup("addr").DefValue, f.proxy.addr = "", ""
	cmd.Flags().Lookup("addr").Usage = "gRPC address of a running proxy: HOST:PORT or unix:///PATH (default: a proxy in this process)"
	cmd.Flags().StringVar(&f.table, "table", "", "keyspace.table of keys, and of lookups that name none")
	cmd.Flags().StringVar(&f.keys, "keys", "-", "file of lookups or keys; - reads standard input")
	cmd.Flags().StringVar(&f.baseline, "baseline", "in", "how the plain driver reads: in (one unpaged IN) or single (a statement a key, token-aware)")
	cmd.Flags().IntVar(&f.concurrency, "concurrency", 4, "lookups in-flight")
	cmd.Flags().Float64Var(&f.rate, "rate", 0, "most lookups per second, each read both ways (default: no limit)")
	cmd.Flags().IntVar(&f.most, "max-differences", 100, "most differences that are listed; all are counted")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "output: text, json or html")
	cmd.Flags().StringVar(&f.out, "out", "", "file for the report (default: standard output)")
	return cmd
}

func (f *shadowFlags) check() error {
	if err := command.OneOf(f.output, "text", "json", "html"); err != nil {
		return err
	}
	switch {
	case f.baseline != string(shadow.In) && f.baseline != string(shadow.Single):
		return command.Usagef("--baseline %q: use in or single", f.baseline)
	case f.concurrency < 1:
		return command.Usagef("--concurrency %d: use 1 or more", f.concurrency)
	case f.rate < 0:
		return command.Usagef("--rate %v: use lookups per second, or 0 for no limit", f.rate)
	case f.most < 0:
		return command.Usagef("--max-differences %d: use 0 or more", f.most)
	}
	if f.table != "" {
		_, _, err := splitTable(f.table)
		return err
	}
	return nil
}

func (f *shadowFlags) run(cmd *cobra.Command) error {
	in, err := f.open(cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer in.Close()
	cfg, err := command.LoadConfig(f.config)
	if err != nil {
		return err
	}
	socket, remove, err := f.listen(cfg)
	if err != nil {
		return err
	}
	defer remove()
	// The report has all that the command prints.
	a := app.New(cfg, app.Options{Version: version, Commit: commit(), Log: slog.New(slog.DiscardHandler)})
	if err := startReady(cmd.Context(), a, cfg); err != nil {
		return err
	}
	defer stop(a)
	driver, err := a.OpenDriver(cmd.Context())
	if err != nil {
		return fmt.Errorf("connect the plain driver: %w", err)
	}
	defer driver.Close()
	proxy, name := f.proxy, f.proxy.addr
	if socket != "" {
		proxy, name = proxyFlags{addr: socket}, "a proxy in this process"
	}
	client, err := proxy.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	report := &shadow.Report{
		Baseline: shadow.Baseline(f.baseline), Proxy: name, Concurrency: f.concurrency, Rate: f.rate, MaxDifferences: f.most,
	}
	run := &shadow.Run{
		Judge: shadow.Judge{
			Driver: app.DriverPath(driver, report.Baseline), Proxy: &grpcPath{client.API(), proxy}, Pauses: shadow.DefaultPauses,
		},
		Next:        shadow.NewInput(in, parserOf(a, f.table)),
		Concurrency: f.concurrency, Rate: f.rate, Report: report, Progress: progressOn(cmd),
	}
	if nodes, err := shadow.FindNodes(a.HostAddresses()); err != nil {
		report.CPU = err.Error()
	} else {
		run.CPU = nodes.Spent
	}
	failed := run.Do(cmd.Context())
	if err := f.write(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	if failed == nil && report.Result != shadow.Same {
		failed = errors.New(strings.ToLower(report.Verdict[:1]) + report.Verdict[1:])
	}
	return failed
}

// open opens the input.
func (f *shadowFlags) open(stdin io.Reader) (io.ReadCloser, error) {
	if f.keys == "-" {
		return io.NopCloser(stdin), nil
	}
	file, err := os.Open(f.keys)
	if err != nil {
		return nil, command.Usagef("--keys: %w", err)
	}
	return file, nil
}

// listen turns the listeners of a configuration off, and its clients, whose token files need not
// be here. If no running proxy is asked, it adds a unix socket, where nobody else connects.
func (f *shadowFlags) listen(cfg *config.Config) (socket string, remove func(), err error) {
	cfg.Listen.GRPC, cfg.Listen.HTTP, cfg.Listen.Admin = "", "", ""
	cfg.Listen.TLS, cfg.Shadow.Sample, cfg.Clients = config.ListenTLS{}, 0, nil
	if f.proxy.addr != "" {
		return "", func() {}, nil
	}
	dir, err := os.MkdirTemp("", "qosproxy")
	if err != nil {
		return "", nil, err
	}
	cfg.Listen.GRPC = "unix://" + filepath.Join(dir, "grpc.sock")
	return cfg.Listen.GRPC, func() { _ = os.RemoveAll(dir) }, nil
}

// startReady starts a proxy and waits until it is ready.
func startReady(ctx context.Context, a *app.App, cfg *config.Config) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(connectTimeout)
	for a.NotReady() != "" {
		if time.Now().After(deadline) || ctx.Err() != nil {
			why := a.NotReady()
			stop(a)
			return fmt.Errorf("connect to %s: %s", strings.Join(cfg.Cassandra.ContactPoints, ", "), why)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// stop ends a proxy.
func stop(a *app.App) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_ = a.Stop(ctx) // nothing depends on a clean end
}

// parserOf returns a parser that makes lookups from lines; table is the default table.
func parserOf(a *app.App, table string) shadow.Parser {
	of := func(name string) (*lookup.Table, error) {
		if name == "" {
			name = table
		}
		if name == "" {
			return nil, errors.New(`no table; name it in the line, "table": "shop.products", or by --table`)
		}
		keyspace, table, _ := strings.Cut(name, ".")
		return a.Table(keyspace, table)
	}
	return shadow.Parser{
		Body: func(line []byte) (*lookup.Request, error) {
			body, err := server.ReadBody(line)
			if err != nil {
				return nil, err
			}
			t, err := of(body.Table)
			if err != nil {
				return nil, err
			}
			return body.Request(t)
		},
		Keys: func(keys []string) (*lookup.Request, error) {
			t, err := of("")
			if err != nil {
				return nil, err
			}
			req := &lookup.Request{Table: t, Keys: make([]partition.Key, len(keys))}
			for i, text := range keys {
				if req.Keys[i], err = server.KeyFromText(t.Schema, text); err != nil {
					return nil, fmt.Errorf("key %q: %w", text, err)
				}
			}
			return req, nil
		},
	}
}

// progressOn returns a function that shows the progress on a terminal; nil elsewhere.
func progressOn(cmd *cobra.Command) func(*shadow.Report) {
	w := cmd.ErrOrStderr()
	if !terminal.Is(w) {
		return nil
	}
	return func(r *shadow.Report) {
		fmt.Fprintf(w, "\r\x1b[K%d lookups, %d keys, %d differ", r.Lookups, r.Keys, r.DifferentKeys)
	}
}

// write writes the report.
func (f *shadowFlags) write(stdout io.Writer, r *shadow.Report) (err error) {
	w := stdout
	if f.out != "" {
		// The report has keys and values of the tables.
		file, err := os.OpenFile(f.out, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		w = file
	}
	switch f.output {
	case "json":
		return r.JSON(w)
	case "html":
		return r.HTML(w)
	}
	return r.Text(w)
}
