package tracing_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// tells returns the form in which a text is in an export, empty for none.
func tells(export []byte, text string) string {
	for form, b := range map[string][]byte{
		"plain":       []byte(text),
		"hexadecimal": []byte(hex.EncodeToString([]byte(text))),
		"base64":      []byte(base64.RawStdEncoding.EncodeToString([]byte(text))[:len(text)]),
		"escaped":     []byte(url.PathEscape(text)),
		"quoted":      bytes.Trim(fmt.Appendf(nil, "%q", text), `"`),
	} {
		if bytes.Contains(export, b) {
			return form
		}
	}
	return ""
}

// talkative is a reader whose errors and results contain the keys that it was
// asked for.
type talkative struct {
	mu   sync.Mutex
	mood int
}

func (r *talkative) read(ctx context.Context, q *executor.SubQuery) ([]partition.Result, error) {
	r.mu.Lock()
	mood := r.mood
	r.mu.Unlock()
	out, _ := found(ctx, q)
	key := string(q.Keys[0].Routing())
	switch mood {
	case 1:
		return nil, &executor.ReadError{Reason: executor.ReasonOverloaded, Err: fmt.Errorf("refused %s", key)}
	case 2:
		return nil, &executor.ReadError{Reason: executor.Reason(key), Err: fmt.Errorf("%q", key)}
	case 3:
		return nil, fmt.Errorf("cannot read %s", key)
	case 4:
		for i, k := range q.Keys {
			out[i] = partition.Result{Status: partition.Failed, Err: fmt.Errorf("tombstones in %s", k.Routing())}
		}
	case 5:
		for i, k := range q.Keys {
			out[i] = partition.Result{Status: partition.TooLarge, Err: fmt.Errorf("too many rows in %s", k.Routing())}
		}
	}
	return out, nil
}

func TestNoKeyLeavesTheProxyInATrace(t *testing.T) {
	c := collect(t, "grpc")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100000")
	r := &talkative{}
	p := start(t, r.read, nil)
	var keys []string
	lookups := 0
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.StringMatching(`[a-z%"/ ]{4}[A-Za-z0-9äß]{8,20}`).Draw(rt, "key")
		keys = append(keys, key)
		lookups++
		r.mu.Lock()
		r.mood = rapid.IntRange(0, 5).Draw(rt, "mood")
		r.mu.Unlock()
		path := "/v1/shop/products/" + url.PathEscape(key)
		switch rapid.IntRange(0, 8).Draw(rt, "way") {
		case 0:
			_, _ = p.rpc.BatchGet(metadata.AppendToOutgoingContext(t.Context(), "x-key-bin", key), batch(key, "other", key))
		case 1:
			in := batch(key)
			in.Columns = []string{key}
			_, _ = p.rpc.BatchGet(t.Context(), in)
		case 2:
			in := batch(key)
			in.Table = key
			_, _ = p.rpc.BatchGet(t.Context(), in)
		case 3:
			p.post(t, map[string]any{"keys": []string{key, "other"}})
		case 4:
			p.post(t, map[string]any{"keys": []any{[]string{key}}})
		case 5:
			p.send(t, http.MethodPost, "/v1/shop/products:batchGet", `{"keys": ["`+key)
		case 6:
			p.send(t, http.MethodGet, path, "")
		case 7:
			p.send(t, http.MethodGet, path+"?columns="+url.QueryEscape(key), "")
		case 8:
			p.send(t, http.MethodGet, "/v1/shop/"+url.PathEscape(key)+"/1", "", "traceparent", key)
		}
	})
	p.flush(t)
	spans, _ := c.received()
	require.Equal(t, lookups, len(sorted(spans).lookup), "each is recorded") //nolint:testifylint // A list of all is no help.
	export := c.bytes(t)
	for _, k := range keys {
		assert.Empty(t, tells(export, k), k)
	}
	assert.NotEmpty(t, tells(export, "SELECT shop.products"), "control: what is there is found")
}
