package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/lab/chaos"
)

func newChaos() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "chaos",
		Short:   "What runs of make chaos have found",
		Long:    "chaos works on the verdicts that make chaos writes. The scenarios themselves are tests,\nwhich break a real cluster under load: make chaos runs them.",
		Example: "  qoslab chaos report deploy/chaos/README.md dist/reports/chaos",
		Args:    command.Exactly(0, 0, "report"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newChaosReport())
	return cmd
}

func newChaosReport() *cobra.Command {
	return &cobra.Command{
		Use:   "report DOCUMENT FOLDER...",
		Short: "Write the scoreboard of a document from verdicts",
		Long: `report writes the scoreboard of a document from the verdicts of one or several runs of
make chaos. The newest verdict of each scenario counts. Rows of scenarios without a
verdict stay.`,
		Example: "  qoslab chaos report deploy/chaos/README.md dist/reports/chaos",
		Args:    command.Exactly(2, -1, "a document and one or more folders"),
		RunE:    func(_ *cobra.Command, args []string) error { return writeScoreboard(args[0], args[1:]) },
	}
}

// writeScoreboard updates the scoreboard of a document.
func writeScoreboard(document string, folders []string) error {
	verdicts, err := chaos.ReadVerdicts(folders...)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	replaced, err := chaos.Replace(string(text), verdicts)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(replaced), 0o644)
}
