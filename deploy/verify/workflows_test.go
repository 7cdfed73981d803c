package verify

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// workflow is what the tests read of one; actionlint reads the rest.
type workflow struct {
	Permissions *map[string]string
	Jobs        map[string]struct {
		Permissions *map[string]string
		Timeout     int `yaml:"timeout-minutes"`
		Steps       []struct {
			Uses string
			Run  string
			With map[string]any
		}
	}
}

var (
	pinned = regexp.MustCompile(`^\s*- uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	uses   = regexp.MustCompile(`\buses:`)
)

// TestWorkflowsTrustNobodyBeyondNeed holds that actions are what was read, whatever
// becomes of their tags, that tokens can do no more than is said, and that no text
// from outside is run as a script.
func TestWorkflowsTrustNobodyBeyondNeed(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		text := readFile(t, file)
		for line := range strings.Lines(text) {
			if uses.MatchString(line) {
				assert.Regexp(t, pinned, strings.TrimRight(line, "\n"), file)
			}
		}
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(text), &w))
		require.NotNil(t, w.Permissions, "%s: without, a token may write", file)
		for _, access := range *w.Permissions {
			assert.Equal(t, "read", access, "%s: what writes is said for the job", file)
		}
		require.NotEmpty(t, w.Jobs)
		for name, job := range w.Jobs {
			assert.Positive(t, job.Timeout, "%s: %s", file, name)
			for _, step := range job.Steps {
				assert.NotContains(t, step.Run, "${{", "%s: %s: text from outside goes by the environment", file, name)
				if strings.HasPrefix(step.Uses, "actions/checkout@") {
					assert.Equal(t, false, step.With["persist-credentials"], "%s: %s", file, name)
				}
			}
		}
	}
}

// TestCIRunsWhatContributorsRun holds that there is one list of checks.
func TestCIRunsWhatContributorsRun(t *testing.T) {
	assert.Contains(t, readFile(t, "../../.github/workflows/ci.yml"), " .ci/run\n")
}
