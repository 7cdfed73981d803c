package server

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	require.NoError(t, err)
	return doc
}

// TestOpenAPIIsValid also holds every example against its schema.
func TestOpenAPIIsValid(t *testing.T) {
	require.NoError(t, loadOpenAPI(t).Validate(t.Context(), openapi3.EnableExamplesValidation()))
}

func TestOpenAPINamesEveryStatus(t *testing.T) {
	var names []any
	for _, s := range partition.Statuses {
		names = append(names, s.String())
	}
	assert.Equal(t, names, loadOpenAPI(t).Components.Schemas["Status"].Value.Enum)
}

func TestAnswersAreAsOpenAPISays(t *testing.T) {
	doc := loadOpenAPI(t)
	tbl := products(t)
	lookups := map[string]func() Lookup{
		"partial": func() Lookup { return &fake{tables: []*lookup.Table{tbl}, get: respond(kettle(t, tbl), absent, late)} },
		"none":    func() Lookup { return &fake{tables: []*lookup.Table{tbl}, get: respond(late, late, late)} },
		"shed": func() Lookup {
			return &fake{tables: []*lookup.Table{tbl}, get: respond(partition.Result{Status: partition.Shed})}
		},
		"absent":    func() Lookup { return &fake{tables: []*lookup.Table{tbl}, get: respond(absent)} },
		"not ready": func() Lookup { return &fake{refuse: &lookup.Error{Kind: lookup.ErrNotReady, Message: "no"}} },
		"unknown":   func() Lookup { return &fake{} },
	}
	for name, c := range map[string]struct{ method, target, path, body, of string }{
		"partial":               {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a","b","c"],"columns":["name","price"],"explain":true}`, "partial"},
		"none answered":         {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a","b","c"]}`, "none"},
		"shed":                  {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "shed"},
		"bad":                   {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"],"x":1}`, "absent"},
		"wrong method":          {"GET", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", ``, "absent"},
		"not ready":             {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "not ready"},
		"unknown table":         {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "unknown"},
		"one key that is not":   {"GET", "/v1/ks/products/a", "/v1/{keyspace}/{table}/{key}", ``, "absent"},
		"one key of no table":   {"GET", "/v1/ks/products/a", "/v1/{keyspace}/{table}/{key}", ``, "unknown"},
		"one key that is there": {"GET", "/v1/ks/products/a?columns=name,price", "/v1/{keyspace}/{table}/{key}", ``, "partial"},
		"a plan":                {"POST", "/v1/ks/products:explain", "/v1/{keyspace}/{table}:explain", `{"keys":["a"]}`, "partial"},
		"a plan of no table":    {"POST", "/v1/ks/products:explain", "/v1/{keyspace}/{table}:explain", `{"keys":["a"]}`, "unknown"},
		"a plan not ready":      {"POST", "/v1/ks/products:explain", "/v1/{keyspace}/{table}:explain", `{"keys":["a"]}`, "not ready"},
		"tables":                {"GET", "/v1/tables", "/v1/tables", ``, "partial"},
		"an unknown client":     {"GET", "/v1/tables", "/v1/tables", ``, "unauthenticated"},
		"a key of its":          {"GET", "/v1/ks/products/a", "/v1/{keyspace}/{table}/{key}", ``, "unauthenticated"},
		"keys of its":           {"POST", "/v1/ks/products:batchGet", "/v1/{keyspace}/{table}:batchGet", `{"keys":["a"]}`, "unauthenticated"},
		"the document":          {"GET", "/openapi.json", "/openapi.json", ``, "partial"},
	} {
		t.Run(name, func(t *testing.T) {
			deps := Deps{}
			if c.of == "unauthenticated" {
				deps.Clients = known(t)
			} else {
				deps.Lookup = lookups[c.of]()
			}
			d := open(t, deps)
			w := do(d.http.Handler, c.method, c.target, c.body)
			op := doc.Paths.Find(c.path).Post
			if op == nil {
				op = doc.Paths.Find(c.path).Get
			}
			described := op.Responses.Status(w.Code)
			require.NotNil(t, described, "status %d is not in the document", w.Code)
			var body any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			assert.NoError(t, described.Value.Content["application/json"].Schema.Value.VisitJSON(body), "%s", w.Body)
			if w.Code != http.StatusOK {
				assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			}
		})
	}
}
