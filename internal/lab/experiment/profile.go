package experiment

import (
	"context"
	"fmt"
	"path"
	"time"

	pprof "github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// CPUProfile loads proxies over gRPC and HTTP and returns a profile of their CPU time, in the form
// that "go build -pgo" accepts. The lookups read a table with one key column, one with two, and a
// clustered one. The profile has no path of this machine.
func (lab *Lab) CPUProfile(ctx context.Context) (*pprof.Profile, error) {
	var parts []*pprof.Profile
	err := lab.with(ctx, sixNodes(16), func(s *Site) error {
		s.Profiler, s.Admission = true, true
		defer func() { s.Profiler, s.Admission = false, false }()
		for _, name := range []string{"products", "accounts", "orders"} {
			if err := s.ensure(ctx, profile(name), 3); err != nil {
				return err
			}
			part, err := s.cpuProfile(ctx)
			if err != nil {
				return fmt.Errorf("profile lookups of %s: %w", name, err)
			}
			parts = append(parts, part)
			if err := s.clear(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return portable(parts)
}

// cpuProfile profiles a proxy that serves the loaded table.
func (s *Site) cpuProfile(ctx context.Context) (*pprof.Profile, error) {
	d, proxy, err := s.Driver(ctx, nil, "consistency: LOCAL_ONE")
	if err != nil {
		return nil, err
	}
	contenders := d.Contenders("profile", bench.ProxyGRPC, bench.ProxyGRPCCQL, bench.ProxyHTTP)
	c := s.lab.comparison(fourCallers)
	warm := c
	warm.Rounds = 1
	s.lab.Say("profiling lookups of %s", s.Data.Profile.Table)
	if _, err := bench.Compare(ctx, contenders, warm); err != nil {
		return nil, err
	}
	c.Warmup = 0
	var p *pprof.Profile
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := bench.Compare(ctx, contenders, c)
		return err
	})
	g.Go(func() (err error) {
		p, err = proxy.cpuProfile(ctx, time.Duration(c.Rounds*len(contenders))*c.Length)
		return err
	})
	err = g.Wait()
	return p, err
}

// cpuProfile fetches a CPU profile of the process over length, in whole seconds. Its listen.pprof
// must be on.
func (p *Proxy) cpuProfile(ctx context.Context, length time.Duration) (*pprof.Profile, error) {
	body, err := p.get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(length.Seconds())))
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return pprof.Parse(body)
}

// portable merges profiles of one binary and removes what belongs to the machine and the run:
// folders, addresses and the time. The compiler uses only functions and lines.
func portable(parts []*pprof.Profile) (*pprof.Profile, error) {
	p, err := pprof.Merge(parts)
	if err != nil {
		return nil, err
	}
	for _, m := range p.Mapping {
		m.File, m.BuildID = path.Base(m.File), ""
	}
	p.TimeNanos, p.Comments = 0, nil
	if err := p.Aggregate(true, true, true, true, false, false); err != nil {
		return nil, err
	}
	return p.Compact(), nil
}
