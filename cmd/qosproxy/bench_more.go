package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/bench"
	"github.com/qosproxy/qosproxy/internal/experiment"
	"github.com/qosproxy/qosproxy/internal/report"
)

func newBenchLoad() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Create the table of a profile and write its data",
		Long: `load creates keyspace and table of a profile where they are missing, and writes all
rows. The same profile and --data-seed always write the same rows, so that qosproxy
bench can check every answer.`,
		Example: `  qosproxy bench load --config qosproxy.yaml
  qosproxy bench load --config qosproxy.yaml --profile features --replication "{'class': 'NetworkTopologyStrategy', 'dc1': 3}"`,
		Args: exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			profile, err := readProfile(f.profile)
			if err != nil {
				return err
			}
			_, client, err := connectClient(cmd.Context(), f.config)
			if err != nil {
				return err
			}
			defer client.Close()
			data, err := bench.NewDataset(profile, f.dataSeed)
			if err != nil {
				return err
			}
			if err := data.Create(cmd.Context(), client, f.replicationStrategy); err != nil {
				return err
			}
			show := newBenchProgress(os.Stderr)
			if err := data.Load(cmd.Context(), client, show.load); err != nil {
				return err
			}
			show.done(fmt.Sprintf("%s.%s holds %d partitions of %d rows, data seed %d",
				profile.Keyspace, profile.Table, profile.Partitions, profile.RowsPerPartition, f.dataSeed))
			return nil
		},
	}
	f.dataFlags(cmd)
	cmd.Flags().StringVar(&f.replicationStrategy, "replication", "{'class': 'SimpleStrategy', 'replication_factor': 3}", "replication of a keyspace that is created, in CQL")
	return cmd
}

func newBenchReport() *cobra.Command {
	var form, file, charts string
	cmd := &cobra.Command{
		Use:     "report FILE...",
		Short:   "Show reports written with -o json in another form",
		Example: "  qosproxy bench report bench.json\n  qosproxy bench report bench.json -o html --out bench.html\n  qosproxy bench report bench.json -o markdown --charts images --out bench.md",
		Args:    exactly(1, 100, "one or more files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf(form, reportForms...); err != nil {
				return err
			}
			if file != "" && len(args) > 1 {
				return usagef("--out holds one report: give one file")
			}
			for _, name := range args {
				f, err := os.Open(name)
				if err != nil {
					return err
				}
				r, err := report.Read(f)
				_ = f.Close()
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				var images []report.Image
				if charts != "" {
					if images, err = r.WriteCharts(charts); err != nil {
						return err
					}
				}
				for i := range images {
					images[i].File = path.Join(filepath.ToSlash(charts), images[i].File)
				}
				if err := writeReport(cmd.OutOrStdout(), r, form, file, images...); err != nil {
					return err
				}
			}
			return nil
		},
	}
	outputFlags(cmd, &form, &file)
	cmd.Flags().StringVar(&charts, "charts", "", "folder for the charts as SVG files, which Markdown then refers to")
	return cmd
}

func newBenchExperiment() *cobra.Command {
	var (
		long bool
		dir  string
		seed uint64
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
hour, most of it until the nodes are warm; one that needs the same cluster as the one
before takes that. --long takes more rounds and more cases.

` + strings.TrimRight(list.String(), "\n"),
		Example: "  qosproxy bench experiment targeting\n  qosproxy bench experiment targeting row-cache --long --dir results",
		Args:    exactly(1, 100, "the names of experiments"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return experiment.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (failed error) {
			show := newBenchProgress(os.Stderr)
			lab, err := newLab(show, seed)
			if err != nil {
				return err
			}
			defer func() { failed = errors.Join(failed, lab.Close()) }()
			lab.Long = long
			for _, name := range args {
				e, err := experiment.Find(name)
				if err != nil {
					return &usageError{err}
				}
				r := &report.Report{Seed: seed, Machine: machine(), Command: "qosproxy bench experiment " + name}
				if long {
					r.Command += " --long"
				}
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
	cmd.Flags().StringVar(&dir, "dir", ".", "folder for the reports")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of data and draws")
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
