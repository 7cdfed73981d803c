package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/experiment"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

func newExperiment() *cobra.Command {
	var (
		long           bool
		rounds         int
		length, warmup time.Duration
		only           string
		targets        []string
		dir, proxy     string
		against        string
		seed           uint64
	)
	var list strings.Builder
	for _, e := range experiment.All {
		fmt.Fprintf(&list, "  %-18s %s\n", e.Name, e.Title)
	}
	cmd := &cobra.Command{
		Use:   "experiment NAME...",
		Short: "Repeat the measurements that the design rests on",
		Long: `experiment boots the clusters that a measurement needs, runs it, and writes its report
as JSON, HTML, Markdown and charts. On two cores each takes some minutes to half an
hour, most of it until the nodes are warm. An experiment that needs the same cluster as
the one before uses that one. --long runs more rounds and more cases. --only measures
the conditions that a regular expression matches, such as '16 callers', and --targets
some of the contenders.

` + strings.TrimRight(list.String(), "\n"),
		Example: "  qoslab experiment targeting\n  qoslab experiment targeting row-cache --long --dir results\n  qoslab experiment targeting --only 'LOCAL_ONE, 4 callers' --length 10s --warmup 20s",
		Args:    command.Exactly(1, 100, "the names of experiments"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return experiment.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (failed error) {
			if rounds < 0 || length < 0 || warmup < 0 {
				return command.Usagef("--rounds, --length and --warmup must not be below 0")
			}
			conditions, err := regexp.Compile(only)
			if err != nil {
				return command.Usagef("--only: %w", err)
			}
			for _, name := range targets {
				if err := bench.CheckTarget(name); err != nil {
					return command.Usagef("--targets: %w", err)
				}
			}
			show := newBenchProgress(os.Stderr)
			lab, err := newLab(show, proxy, seed)
			if err != nil {
				return err
			}
			if against != "" {
				if lab.Against, err = namedProxy("against", against); err != nil {
					return err
				}
			}
			defer func() { failed = errors.Join(failed, lab.Close()) }()
			lab.Long, lab.Rounds, lab.Length, lab.Warmup = long, rounds, length, warmup
			lab.Targets = targets
			if only != "" {
				lab.Only = conditions
			}
			for _, name := range args {
				e, err := experiment.Find(name)
				if err != nil {
					return command.Usage(err)
				}
				r := &report.Report{Seed: seed, Machine: machine(), Command: "qoslab experiment " + name}
				cmd.Flags().Visit(func(f *pflag.Flag) {
					switch f.Name {
					case "long":
						r.Command += " --long"
					case "rounds", "length", "warmup", "only":
						r.Command += fmt.Sprintf(" --%s '%s'", f.Name, f.Value)
					case "targets":
						r.Command += " --targets " + strings.Join(targets, ",")
					}
				})
				err = e.Measure(cmd.Context(), lab, r)
				show.clear()
				// What was measured until an error is worth keeping.
				if len(r.Runs)+len(r.Tables) > 0 {
					err = errors.Join(err, writeExperiment(r, dir), writeReport(cmd.OutOrStdout(), r, "table", ""), verdict(r))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&long, "long", false, "more rounds, longer rounds, more cases")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "rounds of each contender (default: those of the experiment)")
	cmd.Flags().DurationVar(&length, "length", 0, "length of a round (default: that of the experiment)")
	cmd.Flags().DurationVar(&warmup, "warmup", 0, "longest warm-up of each contender (default: that of the experiment)")
	cmd.Flags().StringVar(&only, "only", "", "regular expression: measure only the conditions that it matches")
	cmd.Flags().StringSliceVar(&targets, "targets", nil, "measure only these of its targets, with commas between them")
	cmd.Flags().StringVar(&dir, "dir", ".", "folder for the reports")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of data and draws")
	proxyFlag(cmd.Flags(), &proxy)
	cmd.Flags().StringVar(&against, "against", "", "another binary qosproxy, which the experiment builds compares with")
	return cmd
}

// writeExperiment writes all forms of a report into a folder.
func writeExperiment(r *report.Report, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	images, err := r.WriteCharts(dir)
	if err != nil {
		return err
	}
	for form, extension := range map[string]string{"json": ".json", "html": ".html", "markdown": ".md"} {
		if err := writeReport(nil, r, form, filepath.Join(dir, r.Name+extension), images...); err != nil {
			return err
		}
	}
	return nil
}
