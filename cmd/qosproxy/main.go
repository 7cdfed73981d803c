// Command qosproxy is a stateless QoS read proxy for Apache Cassandra. It answers
// multi-key lookups over gRPC and HTTP/JSON. It reads each key from a replica, and
// hedges the read if the replica is late. Each subcommand has a file of its own in this
// folder.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
)

// version is the version of this build. For a build of a tag the linker sets it;
// otherwise it is the version of this tree, which Dockerfile, manifests and chart
// repeat.
var version = "0.1.0"

// revision is the commit of a build outside of a repository, such as that of an image.
// The linker sets it. In a repository Go itself records the commit.
var revision = ""

func main() {
	os.Exit(run(command.UntilSignal(), os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int { return command.Run(ctx, newRoot(), args) }

func newRoot() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   "qosproxy",
		Short: "A QoS read proxy for Apache Cassandra",
		Long: `qosproxy answers multi-key lookups from Apache Cassandra within a deadline: it
groups the keys by a replica that owns them, reads each group there, hedges to other
replicas when one is late, and gives every key a status of its own.`,
		Example: `  qosproxy serve --config qosproxy.yaml          # the proxy
  qosproxy get shop.products sku-00001 sku-00002 # a lookup from the terminal
  qosproxy top                                   # watch a running proxy`,
	})
	root.AddCommand(
		newServe(), newGet(), newTop(), newRing(), newToken(), newDoctor(), newConfig(), newHealth(), newVersion(), newShadow(),
		newFake(),
	)
	return root
}
