package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// verdictOf returns a verdict that began some minutes after a fixed moment. Its first try has no
// failures, its second and its control have as many as given.
func verdictOf(name string, minute int, failed, control int64) *Verdict {
	v := &Verdict{
		Scenario: name, Fault: "a fault", Promise: "0 failed", Rely: "No lookup fails.", Without: "a | safeguard", Start: time.Unix(0, 0).Add(time.Duration(minute) * time.Minute),
		Control: &Outcome{},
	}
	for _, n := range []int64{0, failed} {
		o := &Outcome{}
		o.load("during", loadOf(n, map[int64]int64{4: 50}))
		v.Tries = append(v.Tries, o)
	}
	v.Control.load("during", loadOf(control, map[int64]int64{4: 50}))
	v.Judge(func(o *Outcome) []Check { return []Check{counted("lookups failed", o.Load("during").Failed, 0)} })
	return v
}

func TestTheNewestVerdictOfEachScenarioIsOnTheBoard(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	require.NoError(t, verdictOf("slow", 5, 0, 20).Save(filepath.Join(one, "deeper")))
	require.NoError(t, verdictOf("frozen", 9, 0, 20).Save(one))
	require.NoError(t, verdictOf("frozen", 3, 8, 20).Save(two))
	require.NoError(t, verdictOf("slow", 6, 9, 20).Save(two))
	require.NoError(t, verdictOf("loss", 1, 0, 9).Save(two))
	alone := verdictOf("rf1", 1, 0, 0)
	alone.Control, alone.Why, alone.Short = nil, "counted on both sides", true
	require.NoError(t, alone.Save(two))
	for _, folders := range [][]string{{one, two}, {two, one}} {
		verdicts, err := ReadVerdicts(folders...)
		require.NoError(t, err)
		const seen = "p50 4.0 ms, p99 4.0 ms, slowest 4 ms, 0.0 % extra sub-queries"
		const first = "1: during 0 failed of 50, p99 4.0 ms<br>2: during "
		assert.Equal(t, `| scenario | you can rely on | promise | seen, all tries together | each try | control | kept |
|---|---|---|---|---|---|---|
| `+"`frozen`"+`: a fault | No lookup fails. | 0 failed | during 100 lookups, 0 failed, `+seen+` | `+first+`0 failed of 50, p99 4.0 ms | a \| safeguard: 20 lookups failed (at most 0) | yes |
| `+"`slow`"+`: a fault | No lookup fails. | 0 failed | during 100 lookups, 9 failed, `+seen+` | `+first+`9 failed of 50, p99 4.0 ms | a \| safeguard: 20 lookups failed (at most 0) | **no**: 9 lookups failed (at most 0) |
| `+"`loss`"+`: a fault | No lookup fails. | 0 failed | during 100 lookups, 0 failed, `+seen+` | `+first+`0 failed of 50, p99 4.0 ms | a \| safeguard: **not broken tenfold, so the scenario proves nothing**: 9 lookups failed (at most 0) | yes |
| `+"`rf1`"+`: a fault (short form) | No lookup fails. | 0 failed | during 100 lookups, 0 failed, `+seen+` | `+first+`0 failed of 50, p99 4.0 ms | none: counted on both sides | yes |
`, Board(verdicts))
		assert.NotContains(t, Board(verdicts), "map[")
	}
}

func TestWhatIsNoVerdictIsNamed(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadVerdicts(dir)
	require.ErrorContains(t, err, "run make chaos first")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"name": "bench"}`), 0o600))
	_, err = ReadVerdicts(dir)
	require.ErrorContains(t, err, "other.json is not the verdict of a scenario")
}

func TestRowsWithoutANewVerdictStay(t *testing.T) {
	document := "# Title\n\n" + beginMark + "\nold\n" + endMark + "\n\nthe end\n"
	slow, loss := *verdictOf("slow", 1, 0, 20), *verdictOf("loss", 1, 0, 20)
	once, err := Replace(document, []Verdict{slow, loss})
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n"+beginMark+"\n\n"+Board([]Verdict{slow, loss})+"\n"+endMark+"\n\nthe end\n", once)

	frozen, newer := *verdictOf("frozen", 2, 0, 30), *verdictOf("loss", 2, 0, 30)
	twice, err := Replace(once, []Verdict{newer, frozen})
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n"+beginMark+"\n\n"+Board([]Verdict{frozen, slow, newer})+"\n"+endMark+"\n\nthe end\n", twice)

	_, err = Replace("# Title\n", nil)
	require.ErrorContains(t, err, "lacks the lines")
}

// The scoreboard's document can be updated, and no row gets lost.
func TestTheScoreboardHasItsMarks(t *testing.T) {
	document, err := os.ReadFile("../../../deploy/chaos/README.md")
	require.NoError(t, err)
	written, err := Replace(string(document), nil)
	require.NoError(t, err)
	assert.Equal(t, string(document), written)
}
