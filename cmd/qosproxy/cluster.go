package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/qosproxy/qosproxy/internal/app"
	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/command"
)

// connectTimeout bounds how long a command waits for the cluster or a proxy.
var connectTimeout = 10 * time.Second

// openCluster connects to the cluster of the configuration and waits until its ring and
// schema are known. The caller must close it.
func openCluster(ctx context.Context, configFile string) (*cassandra.Cluster, error) {
	cfg, err := command.LoadConfig(configFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	settings, err := app.CassandraConfig(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, command.Usage(err)
	}
	cluster, err := cassandra.Open(ctx, settings)
	if err != nil {
		return nil, command.Usage(err)
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

// splitTable splits KEYSPACE.TABLE.
func splitTable(name string) (keyspace, table string, err error) {
	keyspace, table, ok := strings.Cut(name, ".")
	if !ok || keyspace == "" || table == "" {
		return "", "", command.Usagef("%q is not KEYSPACE.TABLE", name)
	}
	return keyspace, table, nil
}

// newTable returns a writer that aligns tab-separated columns.
func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
}
