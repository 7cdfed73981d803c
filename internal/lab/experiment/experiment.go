package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/profiles"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// Experiment is a question about the proxy with the measurement that answers it.
type Experiment struct {
	// Name is short and fit for a file name; Title is one line; Question says what is to be found out.
	Name, Title, Question string

	measure func(context.Context, *Lab, *report.Report) error
	// overview is the chart that answers the question at a glance; nil for none.
	overview *overview
}

// All lists the experiments, in the best order to read them.
var All = []Experiment{targeting, targetingVnodes, rowCache, coordinators, speculation, sizing, replication, ownership, nodeLocal, nodeSettings, quorumReads, builds}

// Names returns the names of All.
func Names() []string {
	names := make([]string, len(All))
	for i, e := range All {
		names[i] = e.Name
	}
	return names
}

// Find returns the experiment with this name. The error lists all names.
func Find(name string) (*Experiment, error) {
	for i := range All {
		if All[i].Name == name {
			return &All[i], nil
		}
	}
	return nil, fmt.Errorf("there is no experiment %q; use %s", name, strings.Join(Names(), ", "))
}

// Measure runs the experiment and fills in the report. After an error the report has what was
// measured until then.
func (e *Experiment) Measure(ctx context.Context, lab *Lab, r *report.Report) error {
	r.Name, r.Title, r.Question, r.Time = e.Name, e.Title, e.Question, time.Now()
	err := e.measure(ctx, lab, r)
	if e.overview != nil {
		e.overview.draw(r)
	}
	if err != nil {
		return fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	r.Notes = append(r.Notes, fmt.Sprintf(
		"Cassandra, proxy and load generator share the %d CPUs of one machine, so rates are those of the whole and CPU time per lookup is what to compare.", r.Machine.CPUs))
	return nil
}

// operating is the SLA at the operating point: half of 125 ms at the 95th
// percentile.
var operating = report.SLA{Percentile: 95, TargetSeconds: 0.0625}

// pick returns the value for the short or for the long form.
func pick[T any](lab *Lab, short, long T) T {
	if lab.Long {
		return long
	}
	return short
}

// comparison returns the usual settings of a comparison, with this load.
func (lab *Lab) comparison(load bench.Load) bench.Comparison {
	return bench.Comparison{
		Load: load, SLA: operating, Seed: lab.Seed, Progress: lab.Progress,
		Rounds: cmp.Or(lab.Rounds, pick(lab, 3, 5)),
		Warmup: cmp.Or(lab.Warmup, pick(lab, 90*time.Second, 180*time.Second)),
		Length: cmp.Or(lab.Length, pick(lab, 5*time.Second, 20*time.Second)),
	}
}

// capacity returns the settings of a comparison that finds the capacity at the SLA, beginning at a
// rate of from lookups per second.
func (lab *Lab) capacity(from float64) bench.Comparison {
	c := lab.comparison(bench.Load{})
	c.Ramp = bench.DefaultRamp()
	c.Ramp.From = from
	c.Rounds = cmp.Or(lab.Rounds, pick(lab, 1, 3))
	c.Length = pick(lab, 4*time.Second, 10*time.Second)
	return c
}

// wants reports whether a condition is to be measured.
func (lab *Lab) wants(condition string) bool {
	return lab.Only == nil || lab.Only.MatchString(condition)
}

// run compares the contenders that are wanted and adds their runs to the report.
func (lab *Lab) run(ctx context.Context, r *report.Report, c bench.Comparison, contenders ...bench.Contender) error {
	contenders = slices.DeleteFunc(contenders, func(one bench.Contender) bool {
		return !lab.wants(one.Condition) || lab.Targets != nil && !slices.Contains(lab.Targets, one.Target)
	})
	if len(contenders) == 0 {
		return nil
	}
	lab.Say("measuring %s", contenders[0].Condition)
	runs, err := bench.Compare(ctx, contenders, c)
	r.Runs = append(r.Runs, runs...)
	return err
}

// products returns the default profile, for the caller to change.
func products() *bench.Profile { return profile("products") }

// profile returns a profile that comes with the binary.
func profile(name string) *bench.Profile {
	data, err := profiles.Files.ReadFile(name + ".yaml")
	if err != nil {
		panic(err) // part of the binary
	}
	p, err := bench.ParseProfile(data)
	if err != nil {
		panic(err)
	}
	return p
}

// sixNodes returns the layout of most experiments, which can share one cluster. Its row cache is
// used only by tables that ask for it. The cache is so small that it holds some of 20,000
// partitions, three copies of each on six nodes, and four of five skewed reads hit it. The nodes
// allow NODE_LOCAL.
func sixNodes(vnodes int) Layout {
	return Layout{
		Nodes: 6, Racks: 3, VNodes: vnodes, YAML: map[string]any{"row_cache_size": "3MiB"},
		JVMArgs: []string{"-Dcassandra.enable_nodelocal_queries=true"},
	}
}

// with calls do with a cluster of this layout: the one that the last experiment has left, which is
// warm, or a new one. It keeps the cluster for the next experiment unless do fails or has worn it
// out.
func (lab *Lab) with(ctx context.Context, l Layout, do func(*Site) error) error {
	site := lab.kept
	if site == nil || !reflect.DeepEqual(site.layout, l) {
		err := lab.Close()
		if err != nil {
			return err
		}
		if site, err = lab.Boot(ctx, l); err != nil {
			return err
		}
	}
	lab.kept = nil
	if err := do(site); err != nil || site.worn {
		return errors.Join(err, site.Close())
	}
	lab.kept = site
	return site.clear()
}

// driver is Driver without change, and without the proxy.
func (s *Site) driver(ctx context.Context, settings ...string) (*bench.Driver, error) {
	d, _, err := s.Driver(ctx, nil, settings...)
	return d, err
}

// Driver starts a proxy for the loaded table, with further settings of the table such as
// "consistency: LOCAL_QUORUM", and opens a driver for it. The site closes both. change may modify
// how targets are reached; it may be nil.
func (s *Site) Driver(ctx context.Context, change func(*bench.Open), settings ...string) (*bench.Driver, *Proxy, error) {
	proxy, err := s.Serve(ctx, settings...)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.driverOf(proxy, func(open *bench.Open) {
		for _, setting := range settings {
			if level, ok := strings.CutPrefix(setting, "consistency: "); ok {
				open.Consistency = level
			}
		}
		if change != nil {
			change(open)
		}
	})
	return d, proxy, err
}

// driverOf opens a driver for a proxy. The site closes it. change is as in Driver.
func (s *Site) driverOf(p *Proxy, change func(*bench.Open)) (*bench.Driver, error) {
	open := s.Open(p)
	if change != nil {
		change(&open)
	}
	d, err := bench.NewDriver(open, s.Meter(p))
	if err != nil {
		return nil, err
	}
	s.drivers = append(s.drivers, d)
	return d, nil
}
