package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// errWrong is returned after checks that found a problem or a warning.
var errWrong = errors.New("something is wrong; mend what is a problem or a warning")

func newDoctor() *cobra.Command {
	var configFile, output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a configuration against the cluster",
		Long: `doctor connects to the cluster as the proxy would, reads what it can of nodes, schema
and settings, looks one existing key of each table up at each of its replicas, and says
what is wrong: what was found, why it matters, and the command or the line of
configuration that mends it. It changes nothing.

  problem  lookups fail or will fail, or the proxy does not start to serve
  warning  what is configured has no effect, or the next fault is not survived
  note     what might be better
  ok       a check that has found nothing

It exits 1 when there is a problem or a warning. With -o json it prints an object with
cluster and local_dc; findings, each with check, level, found, why and mend; lookups,
each with table, host and milliseconds or error; and counts by level.`,
		Example: `  qosproxy doctor --config qosproxy.yaml
  qosproxy doctor --config qosproxy.yaml -o json | jq '.findings[] | select(.level == "problem")'`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.OneOf(output, "table", "json"); err != nil {
				return err
			}
			cfg, err := command.LoadConfig(configFile)
			if err != nil {
				return err
			}
			settings, err := app.CassandraConfig(cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				return command.Usage(err)
			}
			found, err := cassandra.Inspect(cmd.Context(), settings, doctor.Questions(cfg))
			if err != nil {
				return command.Usage(err)
			}
			if err := cmd.Context().Err(); err != nil {
				return err // the inspection is incomplete, so its findings may be wrong
			}
			report := doctor.Diagnose(cfg, found)
			if output == "json" {
				err = printJSON(cmd, report)
			} else {
				err = report.Print(cmd.OutOrStdout(), terminal.Is(cmd.OutOrStdout()))
			}
			if err == nil && report.Wrong() {
				err = errWrong
			}
			return err
		},
	}
	command.ConfigFlag(cmd, &configFile)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "output: table or json")
	return cmd
}
