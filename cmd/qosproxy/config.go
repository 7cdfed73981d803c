package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show the configuration",
		Example: `  qosproxy config check qosproxy.yaml
  qosproxy config show --config qosproxy.yaml
  qosproxy config show --defaults > qosproxy.yaml`,
		Args: command.Exactly(0, 0, "check or show"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigCheck(), newConfigShow())
	return cmd
}

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "Validate a configuration file",
		Long:    "check validates a file and the environment as serve would read them. It names file,\nline and key of every mistake.",
		Example: "  qosproxy config check qosproxy.yaml",
		Args:    command.Exactly(1, 1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := command.LoadConfig(args[0])
			if err != nil {
				return err
			}
			if err := app.Check(cfg); err != nil {
				return command.Usage(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %d tables\n", args[0], len(cfg.Tables))
			return err
		},
	}
}

func newConfigShow() *cobra.Command {
	var configFile string
	var defaults bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the effective configuration, secrets redacted",
		Long:    "show prints the configuration that serve would use: the file, overridden by the\nenvironment, with defaults for the rest. With --defaults it prints the reference,\nwhich explains every key.",
		Example: "  qosproxy config show --config qosproxy.yaml",
		Args:    command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if defaults {
				_, err := fmt.Fprint(cmd.OutOrStdout(), config.Reference())
				return err
			}
			cfg, err := command.LoadConfig(configFile)
			if err != nil {
				return err
			}
			out, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), string(out))
			return err
		},
	}
	command.ConfigFlag(cmd, &configFile)
	cmd.Flags().BoolVar(&defaults, "defaults", false, "print the reference configuration with a comment on every key")
	return cmd
}
