package cassandra

import (
	"context"
	"log/slog"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// driverLogger logs the driver's messages, errors included, at debug level. For a
// host that is down they come every second; this package and its callers log once
// what they mean.
type driverLogger struct{ log *slog.Logger }

// Error implements gocql.StructuredLogger.
func (l driverLogger) Error(msg string, f ...gocql.LogField) { l.write(msg, f) }

// Warning implements gocql.StructuredLogger.
func (l driverLogger) Warning(msg string, f ...gocql.LogField) { l.write(msg, f) }

// Info implements gocql.StructuredLogger.
func (l driverLogger) Info(msg string, f ...gocql.LogField) { l.write(msg, f) }

// Debug drops the message: the driver writes several per request that ends
// early, which is what a hedged read does.
func (driverLogger) Debug(string, ...gocql.LogField) {}

func (l driverLogger) write(msg string, fields []gocql.LogField) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields)+1)
	attrs = append(attrs, slog.String("event", msg))
	for _, f := range fields {
		attrs = append(attrs, slog.Any(f.Name, f.Value.Any()))
	}
	l.log.LogAttrs(ctx, slog.LevelDebug, "cassandra driver", attrs...)
}
