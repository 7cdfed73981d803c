package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/config"
)

// memoryShare is the share of the container's memory that Go may use before it
// collects garbage harder; the rest is for what Go does not count.
const memoryShare = 0.9

func newServe() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `serve runs the proxy until SIGTERM or SIGINT. Then it turns not ready, waits
shutdown.delay for balancers to notice, answers the lookups under way and exits 0; a
second signal ends it at once. While the cluster is down it stays up, not ready, and
says why at /readyz. The configuration and the files that it names are read again when
they change, and on SIGHUP; a mistake in them changes nothing.`,
		Example: `  qosproxy serve --config qosproxy.yaml
  QOSPROXY_CASSANDRA_CONTACT_POINTS=10.0.0.1 qosproxy serve --config qosproxy.yaml`,
		Args: exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile)
			if err != nil {
				return err
			}
			var level slog.LevelVar
			log, flush := newLogger(cfg, &level, os.Stderr)
			defer flush()
			if err := cfg.CheckFiles(); err != nil {
				return &usageError{err}
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
				Reload: func() (*config.Config, error) { return config.Load(configFile, environ()) },
				Hangup: hangup,
			}).Run(cmd.Context())
		},
	}
	configFlag(cmd, &configFile)
	return cmd
}

// limitMemory tells Go of the container's memory limit, which it does not look
// up itself.
func limitMemory(log *slog.Logger) {
	_, err := memlimit.Set(
		memlimit.WithRatio(memoryShare),
		memlimit.WithProvider(memlimit.FromCgroup),
	)
	if err != nil {
		log.Debug("no memory limit found", "error", err)
	}
}

// environ is the environment of the process.
func environ() []string { return os.Environ() }
