package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/qosproxy/qosproxy/"

// allowed lists which packages of this module each package may import. Imports follow the
// path of a lookup; the exceptions are those of cassandra, which implements
// executor.Reader and collects doctor.Cluster.
var allowed = map[string][]string{
	"api":                 {},
	"api/qosproxy":        {"api/qosproxy/v1"},
	"api/qosproxy/cql":    {"api/qosproxy", "api/qosproxy/v1"},
	"api/qosproxy/v1":     {},
	"internal/partition":  {"internal/reasons", "internal/schema"},
	"internal/cqltype":    {},
	"internal/schema":     {"internal/cqltype"},
	"internal/explain":    {"api/qosproxy/v1"},
	"internal/ring":       {},
	"internal/planner":    {"internal/ring"},
	"internal/hedge":      {},
	"internal/quorum":     {"internal/cqltype", "internal/partition", "internal/schema"},
	"internal/executor":   {"internal/hedge", "internal/incident", "internal/partition", "internal/planner", "internal/quorum", "internal/reasons", "internal/ring", "internal/schema"},
	"internal/cost":       {"internal/executor", "internal/hedge", "internal/partition"},
	"internal/merge":      {"internal/executor", "internal/identity", "internal/incident", "internal/partition", "internal/reasons", "internal/ring", "internal/schema"},
	"internal/coalesce":   {"internal/identity", "internal/partition", "internal/schema"},
	"internal/hotkeys":    {"internal/partition"},
	"internal/lookup":     {"internal/coalesce", "internal/executor", "internal/hedge", "internal/hotkeys", "internal/identity", "internal/incident", "internal/partition", "internal/planner", "internal/quorum", "internal/reasons", "internal/ring", "internal/schema", "internal/suggest"},
	"internal/cassandra":  {"internal/cqltype", "internal/doctor", "internal/executor", "internal/incident", "internal/partition", "internal/quorum", "internal/reasons", "internal/ring", "internal/schema", "internal/secret"},
	"internal/doctor":     {"internal/config", "internal/cqltype", "internal/partition", "internal/planner", "internal/quorum", "internal/ring", "internal/schema", "internal/suggest", "internal/terminal"},
	"internal/sla":        {"internal/lookup"},
	"internal/status":     {"internal/lookup"},
	"internal/tracing":    {"internal/executor", "internal/lookup", "internal/partition"},
	"internal/identity":   {"internal/reasons"},
	"internal/incident":   {"internal/reasons"},
	"internal/admission":  {"internal/identity", "internal/lookup", "internal/memory", "internal/partition", "internal/reasons"},
	"internal/admin":      {"internal/lookup", "internal/ring", "internal/schema", "internal/status"},
	"internal/memory":     {"internal/reasons"},
	"internal/reasons":    {},
	"internal/reload":     {},
	"internal/secret":     {},
	"internal/config":     {"internal/coalesce", "internal/hedge", "internal/identity", "internal/planner", "internal/suggest"},
	"internal/server":     {"api/qosproxy/v1", "internal/admission", "internal/cqltype", "internal/explain", "internal/identity", "internal/incident", "internal/lookup", "internal/memory", "internal/partition", "internal/reasons", "internal/ring", "internal/schema", "internal/suggest", "internal/tracing"},
	"internal/standin":    {"internal/fake", "internal/server"},
	"internal/shadow":     {"internal/incident", "internal/lookup", "internal/partition", "internal/reasons", "internal/ring", "internal/schema"},
	"internal/fake":       {"internal/admission", "internal/coalesce", "internal/config", "internal/cqltype", "internal/executor", "internal/lookup", "internal/partition", "internal/planner", "internal/reasons", "internal/ring", "internal/schema", "internal/suggest"},
	"internal/clienttest": {"api/qosproxy/v1"},
	"internal/underrace":  {},
	"internal/app": {"internal/admin", "internal/admission", "internal/cassandra", "internal/config", "internal/cost", "internal/executor", "internal/hedge", "internal/identity", "internal/incident", "internal/lookup", "internal/memory", "internal/merge",
		"internal/partition", "internal/planner", "internal/reload", "internal/ring", "internal/secret", "internal/server", "internal/shadow", "internal/sla", "internal/status", "internal/tracing"},
	"internal/timeline":       {"internal/terminal"},
	"internal/terminal":       {},
	"internal/command":        {"internal/config", "internal/suggest", "internal/terminal"},
	"deploy/prometheus":       {},
	"internal/apitest":        {},
	"internal/apitest/client": {},
	"cmd/qosproxy": {"api/qosproxy", "api/qosproxy/v1", "internal/app", "internal/cassandra", "internal/command", "internal/config", "internal/cqltype", "internal/doctor",
		"internal/explain", "internal/fake", "internal/identity", "internal/lookup", "internal/partition", "internal/reload", "internal/ring", "internal/schema", "internal/server", "internal/shadow", "internal/status", "internal/suggest", "internal/terminal", "internal/timeline"},
	"internal/suggest": {},
}

// lab is the module that measures the product and is not part of it; standin is a proxy
// for tests, clienttest runs clients in them, and underrace skips some under the race detector.
const lab, standin, clienttest, underrace = "internal/lab", "internal/standin", "internal/clienttest", "internal/underrace"

// listed is a package as go list describes it.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImportsFollowTheMap(t *testing.T) {
	// -e also lists packages that cannot be found, such as one of the lab.
	out, err := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags", "chaos,lab", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
	require.NoError(t, err)

	seen := 0
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg listed
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		seen++
		for _, mistake := range mistakes(pkg) {
			t.Error(mistake)
		}
	}
	require.NotZero(t, seen, "go list found no package")
}

// mistakes returns the imports of a package that are not allowed.
func mistakes(pkg listed) []string {
	name := strings.TrimPrefix(pkg.ImportPath, module)
	may, known := allowed[name]
	if !known {
		return []string{"package " + name + " is not on the map: add it to allowed with the packages it may import"}
	}
	var found []string
	for _, path := range pkg.Imports {
		to, ours := strings.CutPrefix(path, module)
		if ours && !slices.Contains(may, to) {
			found = append(found, "package "+name+" imports "+to+", which the map does not allow")
		}
	}
	for _, path := range slices.Concat(pkg.TestImports, pkg.XTestImports) {
		if to, ours := strings.CutPrefix(path, module); ours && strings.HasPrefix(to, lab) {
			found = append(found, "a test of package "+name+" imports "+to+": tests that need the lab stand in the lab")
		}
	}
	return found
}

func TestTheMapKeepsTheLabOutOfTheProduct(t *testing.T) {
	for name, may := range allowed {
		for _, to := range may {
			assert.False(t, strings.HasPrefix(to, lab), "package %s may import %s", name, to)
			assert.NotContains(t, []string{standin, clienttest, underrace}, to, "package %s: only tests import it", name)
		}
	}
	// A program and a test that import the lab are mistakes.
	assert.Len(t, mistakes(listed{ImportPath: module + "cmd/qosproxy", Imports: []string{module + "internal/lab/bench"}}), 1)
	assert.Len(t, mistakes(listed{ImportPath: module + "internal/server", XTestImports: []string{module + "internal/lab/devcluster"}}), 1)
	text, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	assert.NotContains(t, string(text), module+lab, "the product's go.mod does not require the lab")
}
