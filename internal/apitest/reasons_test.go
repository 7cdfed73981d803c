package apitest

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/api/qosproxy"
	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// row matches a line of a table of reasons.md: its word and, in the table of keys, the status.
var row = regexp.MustCompile("^\\| `([a-z_]+)` \\| (?:`([A-Z_]+)` \\| )?.+ \\| .+ \\|$")

// TestReasonsAreTheSameEverywhere checks that the document, the enums of gRPC and OpenAPI, the
// words of the proxy and those of the Go client are equal.
func TestReasonsAreTheSameEverywhere(t *testing.T) {
	var words, statuses []string
	for _, r := range reasons.All {
		words = append(words, r.String())
		status := ""
		if s := partition.StatusOf(r); s != partition.Pending {
			status = s.String()
		}
		statuses = append(statuses, status)

		name := "REASON_" + strings.ToUpper(r.String())
		assert.Equal(t, name, qosproxyv1.Reason(r).String(), "qosproxy.proto")
		assert.Equal(t, r.String(), qosproxy.Reason(r).String(), "the Go client")
	}
	assert.Len(t, qosproxyv1.Reason_name, len(words)+1, "qosproxy.proto, with REASON_UNSPECIFIED")

	text, err := os.ReadFile("reasons.md")
	require.NoError(t, err)
	var documented, beside []string
	for line := range strings.Lines(string(text)) {
		if m := row.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			documented, beside = append(documented, m[1]), append(beside, m[2])
		}
	}
	assert.Equal(t, words, documented, "reasons.md")
	assert.Equal(t, statuses, beside, "reasons.md")

	text, err = os.ReadFile("../internal/server/openapi.json")
	require.NoError(t, err)
	var document struct {
		Components struct {
			Schemas map[string]struct{ Enum []string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &document))
	assert.Equal(t, words, document.Components.Schemas["Reason"].Enum, "openapi.json")
}
