package lab_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	product = "github.com/qosproxy/qosproxy/"
	lab     = product + "internal/lab/"
)

// allowed lists which packages of the lab and of the product each package of the lab may import.
// Tests may import any.
var allowed = map[string]struct{ lab, product []string }{
	"profiles":   {},
	"report":     {nil, []string{"internal/terminal"}},
	"openapi":    {},
	"cassandra":  {},
	"acceptance": {},
	"devcluster": {nil, []string{"internal/cassandra"}},
	"register":   {},
	"simulate": {[]string{"report"}, []string{"internal/cost", "internal/executor", "internal/hedge", "internal/merge", "internal/partition", "internal/planner",
		"internal/ring", "internal/schema"}},
	"bench": {[]string{"report"}, []string{"api/qosproxy/v1", "internal/cassandra", "internal/cqltype", "internal/executor", "internal/hedge",
		"internal/lookup", "internal/partition", "internal/planner", "internal/quorum", "internal/ring", "internal/schema"}},
	"experiment": {[]string{"bench", "devcluster", "profiles", "report"}, []string{"internal/cassandra", "internal/ring"}},
	"chaos":      {[]string{"report"}, nil},
	"cmd/qoslab": {[]string{"bench", "chaos", "devcluster", "experiment", "profiles", "report"}, []string{"api/qosproxy/v1", "internal/app",
		"internal/cassandra", "internal/command", "internal/config", "internal/identity", "internal/sla", "internal/terminal"}},
}

func TestImportsFollowTheMap(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	require.NoError(t, err)
	seen := 0
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name, below := strings.CutPrefix(pkg.ImportPath, lab)
		if !below { // the root, which has this test alone
			continue
		}
		may, listed := allowed[name]
		if !listed {
			t.Errorf("package %s is not on the map: add it to allowed with the packages it may import", name)
			continue
		}
		for _, path := range pkg.Imports {
			if to, ok := strings.CutPrefix(path, lab); ok {
				assert.True(t, slices.Contains(may.lab, to), "package %s imports %s, which the map does not allow", name, to)
			} else if to, ok := strings.CutPrefix(path, product); ok {
				assert.True(t, slices.Contains(may.product, to), "package %s imports %s of the product, which the map does not allow", name, to)
			}
		}
	}
	require.NotZero(t, seen, "go list found no package")
}

// TestTheLabHasTheVersionsOfTheProduct checks that code that runs the product's packages in
// process, such as bench and simulate, runs them with the module versions of the product.
func TestTheLabHasTheVersionsOfTheProduct(t *testing.T) {
	versions := func(file string) (string, map[string]string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = m[2]
		}
		return regexp.MustCompile(`(?m)^go \S+$`).FindString(string(text)), all
	}
	language, want := versions("../../go.mod")
	ours, got := versions("go.mod")
	assert.Equal(t, language, ours)
	require.NotEmpty(t, want)
	same := 0
	for module, version := range want {
		if v, ok := got[module]; ok {
			assert.Equal(t, version, v, module)
			same++
		}
	}
	assert.Greater(t, same, 10)
}
