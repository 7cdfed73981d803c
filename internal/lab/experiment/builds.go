package experiment

import (
	"context"
	"errors"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

var builds = Experiment{
	Name:     "builds",
	Title:    "What a lookup costs this build of the proxy and another",
	Question: "How much CPU does a lookup cost this build of the proxy, against the binary of --against?",
	measure:  measureBuilds,
}

// ErrNoOtherBuild means that Lab.Against is empty where an experiment compares two builds.
var ErrNoOtherBuild = errors.New("name the binary to compare with by --against")

// buildTargets are the targets that ask a proxy.
var buildTargets = []string{bench.ProxyGRPC, bench.ProxyGRPCCQL, bench.ProxyHTTP}

// otherBuild returns the name of a target that asks the other build.
func otherBuild(target string) string { return target + ", --against" }

func measureBuilds(ctx context.Context, lab *Lab, r *report.Report) error {
	if lab.Against == "" {
		return ErrNoOtherBuild
	}
	r.Cluster = "6 nodes, RF 3, 3 racks, 16 vnodes, 450-byte rows, 50 keys"
	r.SLA = &operating
	defer judgeBuilds(r)
	return lab.with(ctx, sixNodes(16), func(s *Site) error {
		if err := s.ensure(ctx, products(), 3); err != nil {
			return err
		}
		own, err := s.driver(ctx, "consistency: LOCAL_ONE")
		if err != nil {
			return err
		}
		s.binary = lab.Against
		defer func() { s.binary = lab.Binary }()
		other, err := s.driver(ctx, "consistency: LOCAL_ONE")
		if err != nil {
			return err
		}
		at := func(condition string, load bench.Load) error {
			var contenders []bench.Contender
			for _, target := range buildTargets {
				contenders = append(contenders, own.Contenders(condition, target)...)
				contenders = append(contenders, named(otherBuild(target), other.Contenders(condition, target))...)
			}
			return lab.run(ctx, r, lab.comparison(load), contenders...)
		}
		return errors.Join(at(few, fourCallers), at(manyAtRate, highRate))
	})
}

// equalCost is the cost ratio up to which builds count as equal: rounds of one binary differ by as
// much.
const equalCost = 1.05

// judgeBuilds adds the findings for the runs that were measured.
func judgeBuilds(r *report.Report) {
	for _, condition := range []string{few, manyAtRate} {
		for _, target := range buildTargets {
			a, b := find(r, target, condition), find(r, otherBuild(target), condition)
			atMost(r, "CPU of the proxy per lookup, this build / the other, "+target+", "+condition, equalCost, a, report.ProxyCPU, b, report.ProxyCPU)
		}
	}
}
