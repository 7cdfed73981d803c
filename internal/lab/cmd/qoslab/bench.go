package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/identity"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/experiment"
	"github.com/qosproxy/qosproxy/internal/lab/profiles"
	"github.com/qosproxy/qosproxy/internal/lab/report"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// The default data of bench. benchTable is the table of defaultProfile.
const (
	defaultProfile  = "products"
	defaultDataSeed = 1
	benchTable      = "bench.products"
)

// benchFlags are the flags of qoslab bench.
type benchFlags struct {
	profile, config     string
	target              string
	compare             []string
	rate                float64
	concurrency         int
	ramp, explain       bool
	duration, warmup    time.Duration
	rounds, keys        int
	consistency         string
	sla, timeout        time.Duration
	percentile          float64
	seed, dataSeed      uint64
	grpc, http, admin   string
	tokenFile, proxy    string
	layout              experiment.Layout
	replication         int
	output, outputFile  string
	replicationStrategy string
}

func newBench() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Load a proxy or Cassandra with lookups, check every row, report latency and cost",
		Long: `bench makes multi-key lookups and checks every row against what was written. It reports
lookups per second, latency, sub-queries, and the CPU time of Cassandra, proxy and client
per lookup.

Targets:
  proxy-grpc, proxy-http   ask a proxy
  proxy-grpc-cql           the same by gRPC, with undecoded cells
  in                       one IN to any coordinator, paged as the driver does
  in-unpaged               the same IN, unpaged
  single                   a token-aware read for each key, all at once
  single-speculative       the same with the driver's speculative execution
  cover                    an unpaged IN for each host of the least set of hosts that
                           have all keys, by the driver alone
  quorum-cover             covers over as many different replicas as are a quorum, whose
                           answers are compared
  grouped                  the proxy's planner and executor, run in the client

--compare runs several targets in turns, A B A B.

The load is an open loop by default: lookups arrive at --rate whatever the answers, and
latency counts from the moment a lookup was due. --concurrency makes it a closed loop.
--ramp finds the highest rate at which --percentile of latency stays within --sla.

With --nodes everything runs on this machine: bench boots a Cassandra cluster, loads it,
and serves it by a proxy in a process of its own. Without --nodes the data must be there
(qoslab bench load) and the proxy must be running.`,
		Example: `  qoslab bench --nodes 3
  qoslab bench --nodes 6 --compare in,single,proxy-grpc --concurrency 4
  qoslab bench load --config qosproxy.yaml --profile features
  qoslab bench --config qosproxy.yaml --profile features --compare single,proxy-grpc --ramp -o html --out bench.html`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	f.dataFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", bench.ProxyGRPC, "what to load: "+strings.Join(bench.Targets, ", "))
	flags.StringSliceVar(&f.compare, "compare", nil, "targets to load in turns, with commas between them")
	flags.Float64Var(&f.rate, "rate", 50, "open loop: lookups per second")
	flags.IntVar(&f.concurrency, "concurrency", 0, "closed loop: callers, each with one lookup at a time")
	flags.BoolVar(&f.ramp, "ramp", false, "find the highest rate at which the SLA holds")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "length of a round, or of a stage of the ramp")
	flags.DurationVar(&f.warmup, "warmup", 30*time.Second, "longest warm-up of each target; it ends when none gets faster")
	flags.IntVar(&f.rounds, "rounds", 3, "rounds of each target")
	flags.IntVar(&f.keys, "keys", 0, "keys of a lookup (default: those of the profile)")
	flags.StringVar(&f.consistency, "consistency", "LOCAL_ONE", "consistency level of direct targets, and with --nodes of the proxy")
	flags.DurationVar(&f.sla, "sla", 125*time.Millisecond, "latency that the percentile must not exceed")
	flags.Float64Var(&f.percentile, "percentile", 95, "percentile of latency that must stay within --sla")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Second, "deadline of a lookup")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the draws (default: another one each time, which is reported)")
	flags.StringVar(&f.grpc, "addr", "127.0.0.1:50051", "gRPC listener of the proxy; several, with commas between them, are asked in turns")
	flags.StringVar(&f.http, "http", "127.0.0.1:8080", "HTTP listener of the proxy")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the bearer token of a client of the proxy")
	flags.BoolVar(&f.explain, "explain", false, "with proxies over gRPC: say what was tried for keys that are not answered")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:8081", "admin listener of the proxy, for its CPU time; empty for none")
	flags.IntVar(&f.layout.Nodes, "nodes", 0, "boot a local cluster of that many nodes, 1 to 9; each takes about 1 GiB")
	flags.IntVar(&f.layout.Racks, "racks", 3, "with --nodes: racks")
	flags.IntVar(&f.layout.VNodes, "vnodes", 16, "with --nodes: tokens of a node")
	proxyFlag(flags, &f.proxy)
	flags.IntVar(&f.replication, "rf", 3, "with --nodes: replication factor")
	outputFlags(cmd, &f.output, &f.outputFile)
	cmd.AddCommand(newBenchLoad(), newBenchReport())
	return cmd
}

// dataFlags adds the flags that select cluster and data.
func (f *benchFlags) dataFlags(cmd *cobra.Command) {
	command.ConfigFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.profile, "profile", defaultProfile, "a YAML file, or "+strings.Join(builtInProfiles(), " or ")+", which come with the binary")
	cmd.Flags().Uint64Var(&f.dataSeed, "data-seed", defaultDataSeed, "seed of the data")
}

// outputFlags adds -o and --out.
func outputFlags(cmd *cobra.Command, format, file *string) {
	cmd.Flags().StringVarP(format, "output", "o", "table", "form of the report: "+strings.Join(reportForms, ", "))
	cmd.Flags().StringVar(file, "out", "", "file for the report (default: stdout)")
}

var reportForms = []string{"table", "json", "markdown", "html"}

// builtInProfiles returns the names of the profiles in the binary.
func builtInProfiles() []string {
	entries, err := profiles.Files.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// readProfile reads a profile of the binary by its name, or a profile from a file.
func readProfile(name string) (*bench.Profile, error) {
	if data, err := profiles.Files.ReadFile(name + ".yaml"); err == nil {
		return bench.ParseProfile(data)
	}
	p, err := bench.ReadProfile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, command.Usagef("--profile %s: there is no such file; give a YAML file, or %s", name, strings.Join(builtInProfiles(), " or "))
	}
	if err != nil {
		return nil, command.Usage(err)
	}
	return p, nil
}

// check rejects invalid flags before anything is booted, and fills in compare and seed.
func (f *benchFlags) check(cmd *cobra.Command) error {
	if len(f.compare) == 0 {
		f.compare = []string{f.target}
	} else if cmd.Flags().Changed("target") {
		return command.Usagef("--target and --compare: give one of them")
	}
	for _, name := range f.compare {
		if err := bench.CheckTarget(name); err != nil {
			return command.Usage(err)
		}
	}
	loads := 0
	for _, flag := range []string{"rate", "concurrency", "ramp"} {
		if cmd.Flags().Changed(flag) {
			loads++
		}
	}
	switch {
	case loads > 1:
		return command.Usagef("--rate, --concurrency and --ramp: give one of them")
	case f.concurrency < 0 || f.rate <= 0:
		return command.Usagef("--rate and --concurrency must be above 0")
	case f.duration <= 0 || f.warmup < 0 || f.timeout <= 0 || f.sla <= 0:
		return command.Usagef("--duration, --timeout and --sla must be above 0, --warmup not below")
	case f.percentile <= 0 || f.percentile >= 100:
		return command.Usagef("--percentile %g: use more than 0 and less than 100", f.percentile)
	case f.rounds < 1:
		return command.Usagef("--rounds %d: use at least 1", f.rounds)
	case f.layout.Nodes < 0 || f.layout.Nodes > 9:
		return command.Usagef("--nodes %d: use 1 to 9; a node takes about 1 GiB", f.layout.Nodes)
	case f.layout.Nodes > 0 && (f.layout.Racks < 1 || f.layout.VNodes < 1 || f.replication < 1):
		return command.Usagef("--racks, --vnodes and --rf must be at least 1")
	case f.layout.Nodes > 0 && f.config != "":
		return command.Usagef("--nodes boots a cluster of its own, --config names another: give one of them")
	case f.layout.Nodes > 0 && f.replication > f.layout.Nodes:
		return command.Usagef("--rf %d is more than --nodes %d", f.replication, f.layout.Nodes)
	}
	var err error
	if f.consistency, err = cassandra.ParseConsistency(f.consistency); err != nil {
		return command.Usage(err)
	}
	if f.seed == 0 {
		f.seed = rand.Uint64() >> 32 // short enough to be typed
	}
	return command.OneOf(f.output, reportForms...)
}

// run measures and writes the report.
func (f *benchFlags) run(cmd *cobra.Command) error {
	profile, err := readProfile(f.profile)
	if err != nil {
		return err
	}
	if f.keys > 0 {
		if f.keys > profile.Partitions {
			return command.Usagef("--keys %d: profile %s has %d partitions", f.keys, profile.Name, profile.Partitions)
		}
		for i := range profile.Mix {
			profile.Mix[i].Keys = f.keys
		}
	}
	r := &report.Report{
		Name: "bench", Title: "qoslab bench: " + profile.Description, Time: time.Now(), Seed: f.seed, Machine: machine(),
		Command: strings.Join(append([]string{"qoslab"}, os.Args[1:]...), " "),
		SLA:     &report.SLA{Percentile: f.percentile, TargetSeconds: f.sla.Seconds()},
	}
	show := newBenchProgress(os.Stderr)
	if f.layout.Nodes > 0 {
		err = f.local(cmd.Context(), profile, r, show)
	} else {
		err = f.remote(cmd.Context(), profile, r, show)
	}
	if err != nil {
		return err
	}
	if err := writeReport(cmd.OutOrStdout(), r, f.output, f.outputFile); err != nil {
		return err
	}
	return verdict(r)
}

// local boots a cluster and a proxy and measures them.
func (f *benchFlags) local(ctx context.Context, profile *bench.Profile, r *report.Report, show *benchProgress) (err error) {
	lab, err := newLab(show, f.proxy, f.dataSeed)
	if err != nil {
		return err
	}
	site, err := lab.Boot(ctx, f.layout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	r.Cluster = fmt.Sprintf("%s, RF %d, %s", f.layout, f.replication, f.consistency)
	if err := site.Load(ctx, profile, f.replication); err != nil {
		return err
	}
	proxy, err := site.Serve(ctx, "consistency: "+f.consistency)
	if err != nil {
		return err
	}
	return f.measure(ctx, site.Open(proxy), site.Meter(proxy), r, show)
}

// remote measures a running cluster and proxy.
func (f *benchFlags) remote(ctx context.Context, profile *bench.Profile, r *report.Report, show *benchProgress) error {
	cfg, client, err := connectClient(ctx, f.config)
	if err != nil {
		return err
	}
	defer client.Close()
	data, err := bench.NewDataset(profile, f.dataSeed)
	if err != nil {
		return err
	}
	if err := data.Loaded(ctx, client); err != nil {
		return err
	}
	r.Cluster = "contact points " + strings.Join(cfg.ContactPoints, ", ") + ", " + f.consistency
	open := bench.Open{
		Data: data, Cassandra: cfg, GRPC: f.grpc, HTTP: f.http, SpeculativeRetry: "15ms", HedgeBudget: 0.02,
	}
	if f.tokenFile != "" {
		tokens, err := identity.ReadTokens(f.tokenFile)
		if err != nil {
			return err
		}
		open.Token = tokens[0]
	}
	meter := bench.Meter{}
	for _, name := range f.compare {
		if bench.IsProxy(name) {
			meter.Admin = f.admin
		}
	}
	return f.measure(ctx, open, meter, r, show)
}

func (f *benchFlags) measure(ctx context.Context, open bench.Open, meter bench.Meter, r *report.Report, show *benchProgress) error {
	open.Consistency, open.Timeout, open.Explain = f.consistency, f.timeout, f.explain
	driver, err := bench.NewDriver(open, meter)
	if err != nil {
		return err
	}
	defer driver.Close()
	c := bench.Comparison{
		Load: bench.Load{Rate: f.rate}, Rounds: f.rounds, Warmup: f.warmup, Length: f.duration,
		SLA: *r.SLA, Seed: f.seed, Progress: show.measuring, MustAnswer: true,
	}
	switch {
	case f.ramp:
		c.Ramp = bench.DefaultRamp()
	case f.concurrency > 0:
		c.Load = bench.Load{Concurrency: f.concurrency}
	}
	r.Runs, err = bench.Compare(ctx, driver.Contenders("", f.compare...), c)
	show.clear()
	if errors.Is(err, bench.ErrUnanswered) && f.layout.Nodes == 0 {
		p := open.Data.Profile
		return fmt.Errorf("%w; nothing was measured. The proxy must serve %s.%s: list it under tables, or choose another --profile", err, p.Keyspace, p.Table)
	}
	return err
}

// connectClient opens a session to the cluster that the configuration names.
func connectClient(ctx context.Context, file string) (cassandra.Config, *cassandra.Client, error) {
	cfg, err := command.LoadConfig(file)
	if err != nil {
		return cassandra.Config{}, nil, err
	}
	settings, err := app.CassandraConfig(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return settings, nil, command.Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	client, err := cassandra.Connect(ctx, settings)
	return settings, client, err
}

// newLab returns a lab that measures the named binary, or the one that findProxy finds if the name
// is empty.
func newLab(show *benchProgress, proxy string, seed uint64) (*experiment.Lab, error) {
	binary, err := findProxy(proxy)
	if err != nil {
		return nil, err
	}
	return &experiment.Lab{
		Binary: binary, Seed: seed, Say: show.say, Booting: show.cluster, Loading: show.load, Progress: show.measuring,
	}, nil
}

// machine describes this machine.
func machine() report.Machine {
	m := report.Machine{CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.Model = strings.TrimSpace(value)
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kib); err == nil {
			m.MemoryBytes = kib << 10
		}
	}
	return m
}

// verdict returns an error if a row was wrong or missing: a fast wrong answer is no answer.
func verdict(r *report.Report) error {
	for _, run := range r.Runs {
		for _, round := range run.Rounds {
			if c := round.Counts; c.WrongRows > 0 || c.MissingKeys > 0 {
				return fmt.Errorf("%s: %d rows were wrong and %d keys missing; see the report", run.Target, c.WrongRows, c.MissingKeys)
			}
		}
	}
	return nil
}

// writeReport writes a report in one of reportForms, to a file or to out. Markdown refers to the
// images.
func writeReport(out io.Writer, r *report.Report, form, file string, images ...report.Image) (err error) {
	if file != "" {
		f, failed := os.Create(file)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	switch form {
	case "json":
		return r.WriteJSON(out)
	case "markdown":
		return r.WriteMarkdown(out, images)
	case "html":
		return r.WriteHTML(out)
	default:
		return r.WriteText(out, report.TextOptions{Colour: terminal.Is(out)})
	}
}
