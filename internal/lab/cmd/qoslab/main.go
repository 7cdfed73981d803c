// Command qoslab demonstrates and measures qosproxy on real clusters that it boots
// itself. It is no part of the product. Each of its commands is one file beside this one.
package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
)

// version is the version of this build, set by the linker.
var version = "dev"

// connectTimeout bounds how long a command waits for a cluster or a proxy.
const connectTimeout = 10 * time.Second

func main() {
	os.Exit(command.Run(command.UntilSignal(), newRoot(), os.Args[1:]))
}

func newRoot() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:     "qoslab",
		Short:   "The laboratory of qosproxy: demonstration, benchmarks, experiments",
		Version: version,
		Long: `qoslab demonstrates and measures qosproxy on real Apache Cassandra clusters, which it
boots on this machine. Proxies run from the binary qosproxy: that of --proxy, the one
beside qoslab, or the first in PATH.`,
		Example: `  qoslab demo                          # a real local cluster, served
  qoslab bench --nodes 3               # lookups, every row checked
  qoslab experiment targeting          # what the design rests on
  qoslab chaos report README.md dist   # the scoreboard of verdicts`,
	})
	root.AddCommand(newDemo(), newBench(), newExperiment(), newProfile(), newChaos())
	return root
}
