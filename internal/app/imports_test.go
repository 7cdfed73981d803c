package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/qosproxy/qosproxy/"

// allowed is the map of the program: which packages of this module each package
// may import. Imports run the way a lookup runs; the one arrow against it is
// cassandra, which implements executor.Reader.
var allowed = map[string][]string{
	"api/qosproxy/v1":     {},
	"internal/partition":  {},
	"internal/cqltype":    {},
	"internal/schema":     {"internal/cqltype"},
	"internal/ring":       {},
	"internal/planner":    {"internal/ring"},
	"internal/hedge":      {},
	"internal/executor":   {"internal/hedge", "internal/partition", "internal/planner", "internal/ring", "internal/schema"},
	"internal/coalesce":   {"internal/partition", "internal/schema"},
	"internal/hotkeys":    {"internal/partition"},
	"internal/lookup":     {"internal/coalesce", "internal/executor", "internal/hedge", "internal/hotkeys", "internal/partition", "internal/planner", "internal/ring", "internal/schema"},
	"internal/cassandra":  {"internal/cqltype", "internal/executor", "internal/partition", "internal/ring", "internal/schema", "internal/secret"},
	"internal/sla":        {},
	"internal/status":     {},
	"internal/identity":   {},
	"internal/admission":  {"internal/identity"},
	"internal/reload":     {},
	"internal/secret":     {},
	"internal/config":     {"internal/coalesce", "internal/hedge", "internal/identity", "internal/planner"},
	"internal/server":     {"api/qosproxy/v1", "internal/admission", "internal/cqltype", "internal/identity", "internal/lookup", "internal/partition", "internal/ring", "internal/schema", "internal/status"},
	"internal/devcluster": {"internal/cassandra"},
	"internal/simulate": {"internal/executor", "internal/hedge", "internal/partition", "internal/planner", "internal/report",
		"internal/ring", "internal/schema"},
	"internal/app": {"internal/admission", "internal/cassandra", "internal/config", "internal/executor", "internal/hedge", "internal/identity", "internal/lookup",
		"internal/partition", "internal/planner", "internal/reload", "internal/ring", "internal/secret", "internal/server", "internal/sla", "internal/status"},
	"internal/report":   {},
	"deploy/bench":      {},
	"deploy/prometheus": {},
	"internal/timeline": {},
	"internal/bench": {"api/qosproxy/v1", "internal/cassandra", "internal/cqltype", "internal/executor", "internal/hedge", "internal/lookup",
		"internal/partition", "internal/planner", "internal/report", "internal/schema"},
	"internal/experiment": {"deploy/bench", "internal/bench", "internal/cassandra", "internal/devcluster", "internal/report", "internal/ring"},
	"internal/acceptance": {},
	"internal/chaos":      {},
	"cmd/qosproxy": {"api/qosproxy/v1", "deploy/bench", "internal/app", "internal/bench", "internal/cassandra", "internal/config", "internal/cqltype",
		"internal/devcluster", "internal/experiment", "internal/identity", "internal/partition", "internal/report", "internal/ring", "internal/schema",
		"internal/status", "internal/timeline"},
}

func TestImportsFollowTheMap(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	require.NoError(t, err)

	seen := 0
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		seen++
		name := strings.TrimPrefix(pkg.ImportPath, module)
		may, listed := allowed[name]
		if !listed {
			t.Errorf("package %s is not on the map: add it to allowed with the packages it may import", name)
			continue
		}
		for _, path := range pkg.Imports {
			to, ours := strings.CutPrefix(path, module)
			if ours && !slices.Contains(may, to) {
				t.Errorf("package %s imports %s, which the map does not allow", name, to)
			}
		}
	}
	require.NotZero(t, seen, "go list found no package")
}
