// Package command is what the programs of this repository have in common: the exit codes and
// messages with which a command line ends, and the checks of its arguments.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qosproxy/qosproxy/internal/config"
	"github.com/qosproxy/qosproxy/internal/suggest"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// The exit codes of every command.
const (
	// ExitDone means that the command did what it was asked to do.
	ExitDone = 0
	// ExitFailed means that the command failed.
	ExitFailed = 1
	// ExitUsage means a mistake on the command line or in the configuration.
	ExitUsage = 2
)

// UntilSignal returns a context that the first SIGINT or SIGTERM cancels, so that the command
// can end in good order. A second signal ends the process at once, as if it were not handled.
func UntilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	// Both signals are received here. Restoring the default handling after the first signal
	// would lose a second one that arrives before that is done.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		second := <-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		if s, ok := second.(syscall.Signal); ok {
			_ = syscall.Kill(os.Getpid(), s)
		}
	}()
	return ctx
}

// Run executes the command line of a program, given without the program's name, and returns
// the exit code. An error is printed to standard error, with more detail if that is a
// terminal.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	text := err.Error()
	if terminal.Is(os.Stderr) {
		text = config.Explain(err)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", cmd.CommandPath(), strings.TrimRight(text, "\n"))
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	return ExitFailed
}

// UsageError is a mistake on the command line or in the configuration: exit code 2.
type UsageError struct{ Err error }

// Error returns the text of the mistake.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage wraps an error in a UsageError.
func Usage(err error) error { return &UsageError{err} }

// Usagef returns a UsageError with a text formatted as by fmt.Errorf.
func Usagef(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// Root completes the root command of a program: without arguments it shows its help, and an
// unknown command or flag is a UsageError.
func Root(root *cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef("unknown command %q%s; see %s --help", args[0], suggest.Hint(args[0], commandNames(cmd)), cmd.CommandPath())
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%w%s; see %s --help", err, suggestFlag(cmd, err), cmd.CommandPath())
	})
	return root
}

// commandNames returns the subcommands of cmd that its help lists.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// suggestFlag returns a hint at the flag that was probably meant. It is empty if err is not
// about an unknown flag, or if no flag is similar.
func suggestFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return suggest.Hint("--"+unknown.GetSpecifiedName(), names)
}

// Exactly returns a check that a command has between least and most arguments; most < 0 means
// no limit. The message of its error names expected.
func Exactly(least, most int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return Usagef("expected %s, got %d arguments; see %s --help", expected, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// OneOf returns a UsageError if value, which -o was given, is not among the allowed ones.
func OneOf(value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return Usagef("-o %q: use %s", value, strings.Join(allowed, " or "))
}

// ConfigFlag adds the flag --config.
func ConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "configuration file (default: the documented defaults and QOSPROXY_ environment)")
}

// LoadConfig reads the configuration from a file and the environment; file may be empty. A
// mistake in the configuration is a UsageError.
func LoadConfig(file string) (*config.Config, error) {
	cfg, err := config.Load(file, os.Environ())
	if err != nil {
		return nil, Usage(err)
	}
	return cfg, nil
}

// Commit returns the revision that the program was built from: the one that Go recorded from
// the repository, otherwise linked, which the linker sets, or "unknown" if that is empty.
func Commit(linked string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return cmp.Or(linked, "unknown")
}
