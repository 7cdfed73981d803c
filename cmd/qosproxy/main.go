// Command qosproxy is a stateless QoS read proxy for Apache Cassandra: multi-key
// lookups by gRPC and HTTP/JSON, each key read from an owner, hedged when late.
// Each of its commands is one file beside this one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/config"
)

// version is the version of this build, set by the linker.
var version = "dev"

// revision is the commit of a build outside of a repository, such as that of an
// image, set by the linker. In a repository Go itself notes it.
var revision = ""

// The exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(untilSignal(), os.Args[1:]))
}

// untilSignal returns a context that the first SIGINT or SIGTERM cancels: the
// command ends in good order. A second one ends the process at once, as if it
// were not handled.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	// Both are received here. Giving signals back to the system after the first
	// would lose a second one that comes before that is done.
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

// run executes the command line and returns the exit code. An error is one line
// on standard error.
func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	text := err.Error()
	if isTerminal(os.Stderr) {
		text = config.Explain(err)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", cmd.CommandPath(), strings.TrimRight(text, "\n"))
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// usageError is a mistake on the command line or in the configuration: exit code
// 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef returns a usageError with a formatted text.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "qosproxy",
		Short: "A QoS read proxy for Apache Cassandra",
		Long: `qosproxy answers multi-key lookups from Apache Cassandra within a deadline: it
groups the keys by a replica that owns them, asks each group there, asks another
replica when one is late, and gives every key a status of its own.`,
		Example: `  qosproxy demo                                  # a real local cluster, served
  qosproxy serve --config qosproxy.yaml          # the proxy
  qosproxy get shop.products sku-00001 sku-00002 # a lookup from the terminal`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newServe(), newDemo(), newBench(), newGet(), newTop(), newRing(), newToken(), newConfig(), newHealth(), newVersion(),
	)
	return root
}

// exactly returns a check that the command line has between least and most
// arguments; most < 0 means no limit. The message shows what is expected.
func exactly(least, most int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usagef("expected %s, got %d arguments; see %s --help", expected, len(args), cmd.CommandPath())
		}
		return nil
	}
}
