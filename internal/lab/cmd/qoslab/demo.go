package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// demoRate is the load of the running demo, in lookups per second.
const demoRate = 20

func newDemo() *cobra.Command {
	d := &demo{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Boot a real local Cassandra cluster, load data, serve it",
		Long: `demo boots a real Apache Cassandra cluster on 127.0.0.1, .2, .3, loads a product
catalogue and a table of user features, serves both on the default ports, shows
three things to try with their output, and then runs a light load of 50-key lookups
with a live line of percentiles. Ctrl-C ends it and removes everything. Meanwhile
qoslab bench loads the same proxy, on a table of its own.

The first run downloads Cassandra (66 MB by Maven). It needs JDK 17 and Maven, and as
root on Debian installs them.`,
		Example: `  qoslab demo
  qoslab demo --grpc 127.0.0.1:50052 --http 127.0.0.1:8090 --admin 127.0.0.1:8091
  qoslab demo --once
  qoslab demo --nodes 1 --once --keep`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.nodes < 1 || d.nodes > 9 {
				return command.Usagef("--nodes %d: use 1 to 9; a node takes about 1 GiB", d.nodes)
			}
			if _, err := d.config(nil); err != nil {
				return command.Usage(err)
			}
			d.out, d.progress = cmd.OutOrStdout(), newProgress(os.Stderr)
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&d.nodes, "nodes", 3, "nodes of the cluster, 1 to 9; a node takes about 1 GiB of memory")
	cmd.Flags().BoolVar(&d.once, "once", false, "do one 50-key lookup on each front listener and exit")
	cmd.Flags().StringVar(&d.grpc, "grpc", "127.0.0.1:50051", "address of gRPC, HOST:PORT")
	cmd.Flags().StringVar(&d.http, "http", "127.0.0.1:8080", "address of HTTP/JSON, HOST:PORT")
	cmd.Flags().StringVar(&d.admin, "admin", "127.0.0.1:8081", "address of metrics and the status page, HOST:PORT")
	proxyFlag(cmd.Flags(), &d.binary)
	cmd.Flags().BoolVar(&d.keep, "keep", false, "with --once: go on serving, without load, until Ctrl-C")
	return cmd
}

// demo is one run of the command.
type demo struct {
	nodes             int
	once, keep        bool
	grpc, http, admin string
	binary            string // path of qosproxy, whose commands the tour runs
	out               io.Writer
	progress          *progress
	proxy             *app.App
}

// benched reports whether the demo serves long enough for qoslab bench to load it.
func (d *demo) benched() bool { return !d.once || d.keep }

func (d *demo) run(ctx context.Context) error {
	if err := d.checkPorts(); err != nil {
		return err
	}
	if !d.once { // the tour runs commands of the binary
		var err error
		if d.binary, err = findProxy(d.binary); err != nil {
			return err
		}
	}
	cluster, err := devcluster.Start(ctx, devcluster.Config{Nodes: demoNodes(d.nodes), YAML: demoYAML, Progress: d.progress.cluster})
	if err != nil {
		return err
	}
	defer func() {
		d.progress.step("stopping the cluster")
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		d.progress.done("stopped; everything is removed")
	}()
	if err := d.load(ctx, cluster); err != nil {
		return d.interrupted(ctx, err)
	}
	if err := d.serve(ctx, cluster); err != nil {
		return d.interrupted(ctx, err)
	}
	return nil
}

// checkPorts fails if an address of the proxy is taken, before minutes are spent on a cluster that
// cannot be served. It does not check the addresses of the nodes: devcluster does before it boots
// one, after it has waited for nodes that are still being stopped.
func (d *demo) checkPorts() error {
	var taken []error
	for _, l := range []struct{ what, flag, address string }{
		{"gRPC", "--grpc", d.grpc}, {"HTTP", "--http", d.http}, {"metrics", "--admin", d.admin},
	} {
		err := devcluster.CheckPort(l.address)
		if err == nil {
			err = besideNodes(l.address, d.nodes)
		}
		if err != nil {
			taken = append(taken, fmt.Errorf("the demo cannot listen for %s: %w, or choose another by %s", l.what, err, l.flag))
		}
	}
	return errors.Join(taken...)
}

// besideNodes fails if the nodes that are to be booted will need an address.
func besideNodes(address string, nodes int) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	all := net.ParseIP(host)
	for _, taken := range devcluster.Addresses(nodes) {
		ip, needed, _ := net.SplitHostPort(taken)
		if port == needed && (host == ip || host == "" || host == "localhost" && ip == "127.0.0.1" || all != nil && all.IsUnspecified()) {
			return fmt.Errorf("port %s will be that of a node, at %s; leave it free", address, taken)
		}
	}
	return nil
}

// interrupted returns nil in place of an error if Ctrl-C cut a step of the endless demo short.
func (d *demo) interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && !d.once {
		return nil
	}
	return err
}

// demoYAML makes each replica answer by itself. The tables leave speculation to the proxy, which
// cannot help when a replica waits for another one.
var demoYAML = map[string]any{"dynamic_snitch": false}

// demoNodes spreads nodes over three racks, like availability zones.
func demoNodes(n int) []devcluster.NodeConfig {
	racks := make([]string, n)
	for i := range racks {
		racks[i] = fmt.Sprintf("rack%d", i%3+1)
	}
	return devcluster.Racks("dc1", racks...)
}

// load creates the sample tables and fills them.
func (d *demo) load(ctx context.Context, cluster *devcluster.Cluster) error {
	settings := cassandra.Default()
	settings.ContactPoints = cluster.ContactPoints()
	settings.Logger = slog.New(slog.DiscardHandler)
	client, err := cassandra.Connect(ctx, settings)
	if err != nil {
		return err
	}
	defer client.Close()
	d.progress.step("creating shop.products and shop.features")
	for _, statement := range demoSchema("dc1", min(3, d.nodes)) {
		if err := client.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create the sample tables: %w", err)
		}
	}
	if err := loadDemo(ctx, client, d.progress.load); err != nil {
		return err
	}
	d.progress.done(fmt.Sprintf("loaded %d products and %d features of %d users", demoProducts, demoUsers*demoFeatures, demoUsers))
	if d.benched() {
		return d.loadBench(ctx, client)
	}
	return nil
}

// loadBench writes the data of the default profile of qoslab bench.
func (d *demo) loadBench(ctx context.Context, client *cassandra.Client) error {
	profile, err := readProfile(defaultProfile)
	if err != nil {
		return err
	}
	data, err := bench.NewDataset(profile, defaultDataSeed)
	if err != nil {
		return err
	}
	if err := data.Create(ctx, client, fmt.Sprintf("{'class': 'NetworkTopologyStrategy', 'dc1': %d}", min(3, d.nodes))); err != nil {
		return fmt.Errorf("create the table of qoslab bench: %w", err)
	}
	if err := data.Load(ctx, client, d.progress.load); err != nil {
		return err
	}
	d.progress.done(fmt.Sprintf("loaded %d rows for qoslab bench", profile.Partitions*profile.RowsPerPartition))
	return nil
}

// config returns the configuration that serves the sample tables, with these contact points and the
// addresses of the flags. The error names the flag.
func (d *demo) config(contactPoints []string) (*config.Config, error) {
	text := "tables:\n  - name: shop.products\n  - name: shop.features\n"
	if d.benched() {
		text += "  - name: " + benchTable + "\n"
	}
	for _, l := range []struct{ flag, address string }{{"--grpc", d.grpc}, {"--http", d.http}, {"--admin", d.admin}} {
		if _, _, err := net.SplitHostPort(l.address); err != nil || strings.HasPrefix(l.address, "unix:") {
			return nil, fmt.Errorf("%s %q: give HOST:PORT, such as 127.0.0.1:8080", l.flag, l.address)
		}
	}
	text += fmt.Sprintf("listen: {grpc: %q, http: %q, admin: %q}\n", d.grpc, d.http, d.admin)
	cfg, err := config.Parse([]byte(text), "")
	if p, ok := errors.AsType[*config.Error](err); ok {
		return nil, fmt.Errorf("--%s: %s", strings.TrimPrefix(p.Key, "listen."), strings.ReplaceAll(p.Message, "listen.", "--"))
	}
	if err != nil {
		return nil, err
	}
	cfg.Cassandra.ContactPoints = contactPoints
	cfg.Shutdown.Delay = 0
	return cfg, nil
}

// bound returns listen with the addresses that a client should use: those on which the proxy
// listens, with the loopback address in place of an unspecified one.
func (d *demo) bound(listen config.Listen) config.Listen {
	for name, to := range map[string]*string{"grpc": &listen.GRPC, "http": &listen.HTTP, "admin": &listen.Admin} {
		host, port, err := net.SplitHostPort(d.proxy.Addr(name))
		if err != nil {
			continue
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		*to = net.JoinHostPort(host, port)
	}
	return listen
}

// serve runs the proxy, shows what it does, and returns when the demo is over.
func (d *demo) serve(ctx context.Context, cluster *devcluster.Cluster) error {
	cfg, err := d.config(cluster.ContactPoints())
	if err != nil {
		return err
	}
	d.proxy = app.New(cfg, app.Options{Version: version, Commit: command.Commit(""), Log: slog.New(slog.DiscardHandler)})
	if err := d.proxy.Start(ctx); err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		if err := d.proxy.Stop(stopping); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	d.progress.step("waiting for the proxy to know the ring")
	if err := d.waitReady(ctx); err != nil {
		return err
	}
	cfg.Listen = d.bound(cfg.Listen)
	d.progress.done("serving gRPC on " + cfg.Listen.GRPC + ", HTTP on " + cfg.Listen.HTTP + ", metrics on " + cfg.Listen.Admin)

	tour := &demoTour{out: d.out, cfg: cfg, binary: d.binary}
	if err := tour.lookups(ctx); err != nil {
		return err
	}
	switch {
	case d.once && !d.keep:
		return nil
	case d.once:
		fmt.Fprintln(d.out, "\nServing until Ctrl-C.")
		<-ctx.Done()
		return nil
	}
	if err := tour.tries(ctx); err != nil {
		return err
	}
	return d.live(ctx, tour, cluster)
}

// waitReady waits until the proxy accepts lookups.
func (d *demo) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		reason := d.proxy.NotReady()
		if reason == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the proxy is not ready: " + reason)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
