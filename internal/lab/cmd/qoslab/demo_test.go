package main

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/lab/bench"
	"github.com/qosproxy/qosproxy/internal/lab/report"
	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/standin"
)

// demoOnce runs a demo that fails with another error if it gets as far as the cluster.
func demoOnce(t *testing.T, flags ...string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root := newRoot()
	root.SetArgs(append([]string{"demo", "--once"}, flags...))
	return root.ExecuteContext(ctx)
}

func TestADemoWhosePortsAreTakenEndsBeforeItBootsACluster(t *testing.T) {
	flags := []string{"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	var taken []string
	for i, what := range []string{"gRPC", "HTTP", "metrics"} {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		flags[2*i+1] = listener.Addr().String()
		taken = append(taken, "the demo cannot listen for "+what+": port "+listener.Addr().String()+" is taken by ")
	}
	err := demoOnce(t, flags...)
	for i, says := range taken {
		require.ErrorContains(t, err, says, "all of them")
		require.ErrorContains(t, err, "; stop it, or choose another by "+flags[2*i])
	}
	if runtime.GOOS == "linux" {
		assert.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	}
}

func TestADemoDoesNotTakeThePortsOfItsNodes(t *testing.T) {
	for _, address := range []string{"127.0.0.1:9042", "127.0.0.2:7000", "0.0.0.0:9042", ":7200", "localhost:7199"} {
		assert.Error(t, besideNodes(address, 3), address)
	}
	for _, address := range []string{"127.0.0.4:9042", "127.0.0.1:9043", "127.0.0.1:0", "127.0.0.1:7202"} {
		assert.NoError(t, besideNodes(address, 3), address)
	}
	err := demoOnce(t, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:9042")
	require.ErrorContains(t, err, "the demo cannot listen for metrics: ")
}

func TestMistakenAddressesOfADemo(t *testing.T) {
	for says, flags := range map[string][]string{
		`--grpc "unix:///tmp/x": give HOST:PORT`:              {"--grpc", "unix:///tmp/x"},
		`--http "8080": give HOST:PORT`:                       {"--http", "8080"},
		"--admin: 127.0.0.1:50051 is already taken by --grpc": {"--admin", "127.0.0.1:50051"},
	} {
		err := demoOnce(t, flags...)
		require.ErrorContains(t, err, says)
		var usage *command.UsageError
		require.ErrorAs(t, err, &usage)
	}
}

// The demo serves the table that qoslab bench reads by default.
func TestTheDemoServesTheTableOfBench(t *testing.T) {
	profile, err := readProfile(defaultProfile)
	require.NoError(t, err)
	assert.Equal(t, benchTable, profile.Keyspace+"."+profile.Table)
	d := &demo{grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"}
	cfg, err := d.config([]string{"127.0.0.1"})
	require.NoError(t, err)
	require.Len(t, cfg.Tables, 3)
	assert.Equal(t, benchTable, cfg.Tables[2].Name.String())
	assert.Equal(t, "127.0.0.1:0", cfg.Listen.Admin)
	d.once = true
	cfg, err = d.config(nil)
	require.NoError(t, err)
	assert.Len(t, cfg.Tables, 2, "which takes a while to load")
}

// A bench fails when the proxy does not serve the table of the profile.
func TestABenchOfNothingFails(t *testing.T) {
	s, stop, err := standin.Serve(t.Context(), server.Config{GRPC: server.Listener{Address: "127.0.0.1:0"}}, server.Deps{},
		standin.Table{Name: "shop.products", Columns: []string{"id text"}})
	require.NoError(t, err)
	defer stop()
	profile, err := readProfile(defaultProfile)
	require.NoError(t, err)
	data, err := bench.NewDataset(profile, defaultDataSeed)
	require.NoError(t, err)
	f := &benchFlags{compare: []string{bench.ProxyGRPC}, rate: 50, rounds: 1, warmup: 30 * time.Second, duration: time.Second, timeout: time.Second}
	r := &report.Report{SLA: &report.SLA{Percentile: 95, TargetSeconds: 0.1}}
	err = f.measure(t.Context(), bench.Open{Data: data, GRPC: s.Addr("grpc").String()}, bench.Meter{}, r, newBenchProgress(io.Discard))
	require.ErrorIs(t, err, bench.ErrUnanswered)
	require.ErrorContains(t, err, "proxy-grpc, warm-up: no lookup was answered of ")
	require.ErrorContains(t, err, "code = NotFound")
	require.ErrorContains(t, err, "The proxy must serve bench.products")
	assert.Empty(t, r.Runs)
}
