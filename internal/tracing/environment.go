package tracing

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// The values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
	protocolJSON = "http/json"
)

const (
	// defaultRatio is the recorded share of the traces that begin here. For a proxy
	// that answers thousands of lookups a second, one in a hundred gives a full
	// picture; OpenTelemetry's own default records all.
	defaultRatio = 0.01
	// defaultQueue is how many spans may wait to be sent, the SDK's default.
	defaultQueue = 2048
)

// environment is what the standard variables of OpenTelemetry ask for, except those
// that only the exporter or the SDK reads.
type environment struct {
	on       bool
	protocol string
	sampler  sampler
	queue    int
}

// readEnvironment reads the variables, and logs invalid ones. An empty variable
// counts as unset, as the specification requires.
func readEnvironment(log *slog.Logger) environment {
	env := environment{on: wanted(log)}
	if !env.on {
		return env
	}
	env.protocol = protocolOf(log)
	env.sampler = samplerOf(log)
	env.queue = defaultQueue
	if text := os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			env.queue = n
		} else {
			ignored(log, "OTEL_BSP_MAX_QUEUE_SIZE", "expected a number of spans above 0; 2048 is used")
		}
	}
	return env
}

// ignored logs that a variable has no effect. It omits the value, which may have
// been meant for another variable, such as one with credentials.
func ignored(log *slog.Logger, variable, why string) {
	log.Warn("an environment variable of OpenTelemetry is ignored", "variable", variable, "reason", why)
}

// wanted reports whether traces are to be sent: when an exporter or an endpoint is
// set. The specification would send them to localhost without either.
func wanted(log *slog.Logger) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	exporters := os.Getenv("OTEL_TRACES_EXPORTER")
	if exporters == "" {
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
	on := false
	for exporter := range strings.SplitSeq(exporters, ",") {
		switch strings.TrimSpace(exporter) {
		case "otlp":
			on = true
		case "none", "":
		default:
			ignored(log, "OTEL_TRACES_EXPORTER", "expected otlp or none; others are not sent to")
		}
	}
	return on
}

func protocolOf(log *slog.Logger) string {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := os.Getenv(variable); protocol {
		case "":
			continue
		case protocolGRPC, protocolHTTP, protocolJSON:
			return protocol
		default:
			ignored(log, variable, "expected grpc, http/protobuf or http/json; http/protobuf is used")
			return protocolHTTP
		}
	}
	return protocolHTTP
}

func samplerOf(log *slog.Logger) sampler {
	name := strings.ToLower(os.Getenv("OTEL_TRACES_SAMPLER"))
	base, parentBased := strings.CutPrefix(name, "parentbased_")
	ratio := 1.0
	switch base {
	case "always_on":
	case "always_off":
		ratio = 0
	case "traceidratio":
		ratio = ratioOf(log, ratio)
	default:
		if name != "" {
			ignored(log, "OTEL_TRACES_SAMPLER", "expected always_on, always_off or traceidratio, also with parentbased_ before it; "+
				"parentbased_traceidratio is used")
		}
		parentBased, ratio = true, ratioOf(log, defaultRatio)
	}
	return newSampler(parentBased, ratio)
}

// ratioOf returns the argument of the sampler. It counts without
// OTEL_TRACES_SAMPLER, too: whoever sets only a share means it.
func ratioOf(log *slog.Logger, otherwise float64) float64 {
	text := os.Getenv("OTEL_TRACES_SAMPLER_ARG")
	if text == "" {
		return otherwise
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		ignored(log, "OTEL_TRACES_SAMPLER_ARG", "expected a share from 0 to 1; "+strconv.FormatFloat(otherwise, 'g', -1, 64)+" is used")
		return otherwise
	}
	return ratio
}
