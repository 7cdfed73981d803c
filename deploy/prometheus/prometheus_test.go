package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// promtool runs Prometheus's own tool.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: apt-get install prometheus)")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), out)
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, "check", "rules", "--lint-fatal", "recording.yaml", "alerts.yaml")
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	promtool(t, "test", "rules", "alerts_test.yaml")
}

type rules struct {
	Groups []struct {
		Rules []struct {
			Alert       string
			Record      string
			Expr        string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// TestEveryAlertIsTestedAndHasARunbook also finds what a rule takes from a record
// that there is not.
func TestEveryAlertIsTestedAndHasARunbook(t *testing.T) {
	runbooks, tests := read(t, "runbooks.md"), read(t, "alerts_test.yaml")
	var recording, alerts rules
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "recording.yaml")), &recording))
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "alerts.yaml")), &alerts))
	recorded := map[string]bool{}
	for _, g := range recording.Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
		}
	}
	n := 0
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			n++
			assert.Contains(t, runbooks, "\n## "+r.Alert+"\n")
			assert.Equal(t, "https://github.com/qosproxy/qosproxy/blob/main/deploy/prometheus/runbooks.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
			assert.NotContains(t, r.Expr, "0.05", "the budget is that of the configuration")
			if strings.Contains(r.Expr, " by (") {
				assert.Contains(t, r.Expr, "by (cluster", "clusters are not added up")
			}
			assert.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
			assert.Regexp(t, "alertname: "+r.Alert+"\n +exp_alerts:\n +- exp_labels", tests, "a series that fires it")
			for _, name := range regexp.MustCompile(`\w+:\w+:\w+`).FindAllString(r.Expr, -1) {
				assert.True(t, recorded[name], "%s uses %s, which is not recorded", r.Alert, name)
			}
		}
	}
	assert.Len(t, regexp.MustCompile(`(?m)^## `).FindAllString(runbooks, -1), n, "a runbook without an alert")
}
