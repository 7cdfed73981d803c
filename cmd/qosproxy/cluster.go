package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/config"
)

// connectTimeout bounds how long a command waits for the cluster.
const connectTimeout = 10 * time.Second

// configFlag adds --config.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "configuration file (default: the documented defaults and QOSPROXY_ environment)")
}

// openCluster connects to the cluster that the configuration names and waits
// until its ring and schema are known. The caller closes it.
func openCluster(ctx context.Context, configFile string) (*cassandra.Cluster, error) {
	cfg, err := loadConfig(configFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	settings, err := app.CassandraConfig(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, &usageError{err}
	}
	cluster, err := cassandra.Open(ctx, settings)
	if err != nil {
		return nil, &usageError{err}
	}
	if err := cluster.WaitReady(ctx); err != nil {
		reason := cluster.Status().Reason
		cluster.Close()
		if reason == "" {
			reason = err.Error()
		}
		return nil, fmt.Errorf("connect to %s: %s", strings.Join(cfg.Cassandra.ContactPoints, ", "), reason)
	}
	return cluster, nil
}

// loadConfig reads the configuration; a mistake in it is a usage error.
func loadConfig(file string) (*config.Config, error) {
	cfg, err := config.Load(file, environ())
	if err != nil {
		return nil, &usageError{err}
	}
	return cfg, nil
}

// splitTable splits KEYSPACE.TABLE.
func splitTable(name string) (keyspace, table string, err error) {
	keyspace, table, ok := strings.Cut(name, ".")
	if !ok || keyspace == "" || table == "" {
		return "", "", usagef("%q is not KEYSPACE.TABLE", name)
	}
	return keyspace, table, nil
}

// oneOf refuses a value of -o that is not among the allowed ones.
func oneOf(value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usagef("-o %q: use %s", value, strings.Join(allowed, " or "))
}

// newTable returns a writer that aligns tab-separated columns.
func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
}
