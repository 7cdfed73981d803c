package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/lookup"
)

func TestObserverSeesTheTraceOfTheCaller(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for header, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01":                       id,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-" + id: "",
		"key-with-secret-in-it-that-is-long-enough-to-be-a-parent-xx": "",
		"": "",
	} {
		var seen []string
		tbl := products(t)
		d := open(t, Deps{
			Lookup: &fake{tables: []*lookup.Table{tbl}, get: respond(absent)},
			Observer: ObserverFunc(func(ctx context.Context, _ string, _ int, _ lookup.Code, _ time.Duration, _ *lookup.Response) {
				seen = append(seen, TraceID(ctx))
			}),
		})
		do(d.http.Handler, http.MethodPost, "/v1/ks/products:batchGet", `{"keys": ["a"]}`, "Traceparent", header)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", header)
		_, err := d.rpc.BatchGet(ctx, &qosproxyv1.BatchGetRequest{Keyspace: "ks", Table: "products",
			Keys: []*qosproxyv1.Key{{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Text{Text: "a"}}}}}})
		require.NoError(t, err)
		assert.Equal(t, []string{want, want}, seen, header)
	}
}
