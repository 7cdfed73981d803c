package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/config"
)

// memoryShare is the share of the container's memory that is Go's soft memory limit.
// The rest is for memory that Go does not count.
const memoryShare = 0.9

func newServe() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `serve runs the proxy until SIGTERM or SIGINT. Then it turns not ready, waits
shutdown.delay for balancers to notice, answers the in-flight lookups and exits 0. A
second signal ends it at once.

While the cluster is down the proxy stays up, not ready, and says why at /readyz.

It reads the configuration and the files that it names again when they change, and on
SIGHUP. A reload is all-or-nothing: a mistake changes nothing.`,
		Example: `  qosproxy serve --config qosproxy.yaml
  QOSPROXY_CASSANDRA_CONTACT_POINTS=10.0.0.1 qosproxy serve --config qosproxy.yaml`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := command.LoadConfig(configFile)
			if err != nil {
				return err
			}
			var level slog.LevelVar
			log, flush := newLogger(cfg, &level, os.Stderr)
			defer flush()
			if err := app.Check(cfg); err != nil {
				return command.Usage(err)
			}
			if len(cfg.Tables) == 0 {
				log.Warn("no table can be read: list them under tables in the configuration")
			}
			limitMemory(log)
			log.Info("starting", "version", version, "commit", commit(), "contact_points", cfg.Cassandra.ContactPoints, "tables", len(cfg.Tables))
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			return app.New(cfg, app.Options{
				Version: version, Commit: commit(), Log: log, Level: &level,
				Reload: reread(configFile, log),
				Hangup: hangup, OwnProcess: true,
			}).Run(cmd.Context())
		},
	}
	command.ConfigFlag(cmd, &configFile)
	return cmd
}

// reread returns how a configuration is read again; nil for a pipe, which is empty by then.
func reread(file string, log *slog.Logger) func() (*config.Config, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		log.Info("the configuration is not a regular file, so it is read only once; certificates, passwords and tokens are read again when they change", "file", file)
		return nil
	}
	return func() (*config.Config, error) { return config.Load(file, os.Environ()) }
}

// limitMemory sets Go's memory limit from that of the container, which Go does not read
// by itself.
func limitMemory(log *slog.Logger) {
	_, err := memlimit.Set(
		memlimit.WithRatio(memoryShare),
		memlimit.WithProvider(memlimit.FromCgroup),
	)
	if err != nil {
		log.Debug("no memory limit found", "error", err)
	}
}
