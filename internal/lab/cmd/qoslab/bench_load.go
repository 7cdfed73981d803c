package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
)

func newBenchLoad() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Create the table of a profile and write its data",
		Long: `load creates the keyspace and the table of a profile if they are missing, and writes all
rows. The same profile and --data-seed always write the same rows, so that qoslab bench
can check every answer.`,
		Example: `  qoslab bench load --config qosproxy.yaml
  qoslab bench load --config qosproxy.yaml --profile features --replication "{'class': 'NetworkTopologyStrategy', 'dc1': 3}"`,
		Args: command.Exactly(0, 0, "no argument"),
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
		Example: "  qoslab bench report bench.json\n  qoslab bench report bench.json -o html --out bench.html\n  qoslab bench report bench.json -o markdown --charts images --out bench.md",
		Args:    command.Exactly(1, 100, "one or more files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OneOf(form, reportForms...); err != nil {
				return err
			}
			if file != "" && len(args) > 1 {
				return command.Usagef("--out holds one report: give one file")
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
