package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and Go version",
		Example: "  qosproxy version",
		Args:    command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "qosproxy %s (commit %s, %s, %s/%s)\n",
				version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// commit returns the revision the binary was built from, or unknown.
func commit() string { return command.Commit(revision) }
