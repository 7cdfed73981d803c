package acceptance

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/clienttest"
)

// testClients reads every row of types.wide with the clients in other languages and compares the
// values with those of the generated client. Rows written by Cassandra have properties that no test
// thinks of, such as its own order of sets and maps.
func testClients(t *testing.T, p *proxy, rows int) {
	in := &qosproxyv1.BatchGetRequest{Keyspace: "types", Table: "wide"}
	ask := clienttest.Ask{Table: "types.wide", TimeoutMillis: 20_000}
	for id := range rows {
		in.Keys = append(in.Keys, &qosproxyv1.Key{Components: []*qosproxyv1.Value{{Kind: &qosproxyv1.Value_Int{Int: int32(id)}}}})
		ask.Keys = append(ask.Keys, []any{map[string]any{"int": strconv.Itoa(id)}})
	}
	want, err := p.grpc.BatchGet(t.Context(), in)
	require.NoError(t, err)
	for _, language := range clienttest.Languages {
		t.Run(language, func(t *testing.T) {
			program := clienttest.Start(t, "../../../api", language, p.Addr("grpc"))
			assert.Empty(t, clienttest.Differences(program.Ask(t, ask), want))
		})
	}
}
