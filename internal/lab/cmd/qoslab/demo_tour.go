package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/config"
)

// demoKeys is the number of keys of a lookup of the demo.
const demoKeys = 50

// demoTour shows what the proxy does.
type demoTour struct {
	out    io.Writer
	cfg    *config.Config
	binary string // path of qosproxy; only tries needs it
}

// randomIDs returns n random keys of products. A key may occur twice.
func randomIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = demoID(rand.IntN(demoProducts))
	}
	return ids
}

// lookups makes one 50-key lookup through each of the gRPC and HTTP listeners, after a warm-up.
func (t *demoTour) lookups(ctx context.Context) error {
	conn, err := t.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := warmUp(ctx, func() (time.Duration, error) {
		resp, err := t.grpcLookup(ctx, conn)
		return resp.GetStats().GetElapsed().AsDuration(), err
	}); err != nil {
		return fmt.Errorf("lookup by gRPC: %w", err)
	}
	if err := awaitServing(ctx, conn); err != nil {
		return err
	}
	if err := again(ctx, func() error {
		resp, err := t.grpcLookup(ctx, conn)
		if err != nil {
			return fmt.Errorf("lookup by gRPC: %w", err)
		}
		s := resp.GetStats()
		t.answered("gRPC", int(s.GetKeys()), int(s.GetGroups()), int(s.GetSubQueries()), s.GetElapsed().AsDuration().Seconds()*1000)
		return nil
	}); err != nil {
		return err
	}
	return again(ctx, func() error {
		if err := t.httpLookup(ctx); err != nil {
			return fmt.Errorf("lookup by HTTP: %w", err)
		}
		return nil
	})
}

// again makes up to five tries. A lookup may fail because nodes that have just booted and share a
// machine stall now and then.
func again(ctx context.Context, lookup func() error) error {
	const tries = 5
	for left := tries - 1; ; left-- {
		if err := lookup(); err == nil || left == 0 || ctx.Err() != nil {
			return err
		}
	}
}

// httpLookup reads 50 random products as JSON and prints a line about the lookup.
func (t *demoTour) httpLookup(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"keys": randomIDs(demoKeys)})
	if err != nil {
		return err
	}
	answer, err := t.post(ctx, "/v1/shop/products:batchGet", body)
	if err != nil {
		return err
	}
	var result struct {
		Partial bool
		Stats   struct {
			Keys, Groups int
			SubQueries   int     `json:"sub_queries"`
			ElapsedMS    float64 `json:"elapsed_ms"`
		}
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return err
	}
	if result.Partial {
		return fmt.Errorf("not every key was answered: %s", answer)
	}
	t.answered("HTTP", result.Stats.Keys, result.Stats.Groups, result.Stats.SubQueries, result.Stats.ElapsedMS)
	return nil
}

const (
	// warmUps is how many lookups in a row must be answered before the tour begins.
	warmUps = 5
	// warm is the longest latency of lookups on nodes that have compiled their code, and
	// warmUpPatience is how long the tour waits for such latencies.
	warm           = 15 * time.Millisecond
	warmUpPatience = 5 * time.Second
	// warmUpGap is the pause after a failed lookup, and warmUpMost how long lookups may go on failing.
	warmUpGap  = 50 * time.Millisecond
	warmUpMost = 30 * time.Second
)

// warmUp makes lookups until the cluster answers them all and quickly: nodes that have just booted
// run uncompiled code and need a second for what later takes a millisecond. lookup returns its
// latency. warmUp returns the error of the last lookup.
func warmUp(ctx context.Context, lookup func() (time.Duration, error)) error {
	answered, fast := 0, 0
	for begin := time.Now(); ; {
		took, err := lookup()
		if err != nil {
			if ctx.Err() != nil || time.Since(begin) >= warmUpMost {
				return err
			}
			answered, fast = 0, 0
			time.Sleep(warmUpGap)
			continue
		}
		answered++
		fast++
		if took > warm {
			fast = 0
		}
		if answered >= warmUps && (fast >= warmUps || time.Since(begin) >= warmUpPatience) {
			return nil
		}
	}
}

// servingPatience is how long a proxy that answers lookups may take to report that it is serving.
const servingPatience = 10 * time.Second

// awaitServing waits until the health service reports SERVING, which it does a moment after the
// first lookup is answered. Before that, clients that look at health, such as qosproxy get, find
// the proxy not ready.
func awaitServing(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, servingPatience)
	defer cancel()
	health := healthpb.NewHealthClient(conn)
	for {
		resp, err := health.Check(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			return fmt.Errorf("health of the proxy: %w", err)
		}
		if resp.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the proxy is still %s after %s: %w", resp.GetStatus(), servingPatience, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answered prints a line about a lookup.
func (t *demoTour) answered(listener string, keys, groups, subQueries int, ms float64) {
	fmt.Fprintf(t.out, "%s: %d keys answered from %d hosts with %d sub-queries in %.1f ms\n", listener, keys, groups, subQueries, ms)
}

func (t *demoTour) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient(t.cfg.Listen.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// grpcLookup reads 50 random products. It fails if a key is not found.
func (t *demoTour) grpcLookup(ctx context.Context, conn *grpc.ClientConn) (*qosproxyv1.BatchGetResponse, error) {
	req := &qosproxyv1.BatchGetRequest{Keyspace: "shop", Table: "products"}
	for _, id := range randomIDs(demoKeys) {
		req.Keys = append(req.Keys, &qosproxyv1.Key{
			Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: id}}},
		})
	}
	resp, err := qosproxyv1.NewQosProxyClient(conn).BatchGet(ctx, req)
	if err != nil {
		return nil, err
	}
	for i, r := range resp.GetResults() {
		if r.GetStatus() != qosproxyv1.KeyStatus_KEY_STATUS_FOUND {
			return nil, fmt.Errorf("key %d of %d is %s: %s", i, demoKeys, strings.TrimPrefix(r.GetStatus().String(), "KEY_STATUS_"), r.GetError())
		}
	}
	return resp, nil
}

func (t *demoTour) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.cfg.Listen.HTTP+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("POST %s: %s: %s", path, resp.Status, bytes.TrimSpace(answer))
	}
	return answer, err
}

// tries shows three commands to try, each with its real output.
func (t *demoTour) tries(ctx context.Context) error {
	fmt.Fprintln(t.out, "\nThings to try in another terminal:")
	const body = `{"keys": ["sku-00001", "nope"], "columns": ["name", "price"]}`
	answer, err := t.post(ctx, "/v1/shop/products:batchGet", []byte(body))
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\n$ curl -s http://%s/v1/shop/products:batchGet -H 'Content-Type: application/json' -d '%s'\n%s\n",
		t.cfg.Listen.HTTP, body, bytes.TrimSpace(answer))

	get := []string{"get", "shop.features", "user-0007", "--explain"}
	if t.cfg.Listen.GRPC != config.Default().Listen.GRPC {
		get = append(get, "--addr", t.cfg.Listen.GRPC)
	}
	if err := t.try(ctx, get...); err != nil {
		return err
	}
	if err := t.try(ctx, "ring", "shop"); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\nAlso: grpcurl -plaintext %s list, http://%s/metrics, http://%s/status\nAnd a benchmark: %s\n",
		t.cfg.Listen.GRPC, t.cfg.Listen.Admin, t.cfg.Listen.Admin, t.benchCommand())
	return nil
}

// benchCommand returns the command that loads the proxy of the demo.
func (t *demoTour) benchCommand() string {
	command, usual := []string{"qoslab bench"}, config.Default().Listen
	for _, l := range []struct{ flag, address, usual string }{
		{"--addr", t.cfg.Listen.GRPC, usual.GRPC}, {"--http", t.cfg.Listen.HTTP, usual.HTTP}, {"--admin", t.cfg.Listen.Admin, usual.Admin},
	} {
		if l.address != l.usual {
			command = append(command, l.flag, l.address)
		}
	}
	return strings.Join(command, " ")
}

// try runs a command of qosproxy and prints it with its output.
func (t *demoTour) try(ctx context.Context, args ...string) error {
	fmt.Fprintf(t.out, "\n$ qosproxy %s\n", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Stdout, cmd.Stderr = t.out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("qosproxy %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
