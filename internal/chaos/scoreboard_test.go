package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// verdictOf returns a verdict that began so many minutes after some moment.
func verdictOf(name string, minute int, seen string, broken ...string) *Verdict {
	return &Verdict{
		Scenario: name, Fault: "a fault", Promise: "0 failed", Kept: len(broken) == 0,
		Tries:   []Outcome{{Figures: [][2]string{{"early:", "x"}}, Broken: []string{"y"}}, {Figures: [][2]string{{"during:", seen}, {"after:", "a | b"}}, Broken: broken}},
		Without: "a safeguard", Control: &Outcome{Broken: []string{"7 failed"}}, Start: time.Unix(0, 0).Add(time.Duration(minute) * time.Minute),
	}
}

func TestTheNewestVerdictOfEachScenarioIsOnTheBoard(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	require.NoError(t, verdictOf("slow", 5, "old").Save(filepath.Join(one, "deeper")))
	require.NoError(t, verdictOf("frozen", 9, "new").Save(one))
	require.NoError(t, verdictOf("frozen", 3, "old").Save(two))
	require.NoError(t, verdictOf("slow", 6, "new", "9 failed").Save(two))
	useless := verdictOf("loss", 1, "-")
	useless.Control.Broken = nil
	require.NoError(t, useless.Save(two))
	alone := verdictOf("rf1", 1, "-")
	alone.Control, alone.Why, alone.Short = nil, "counted on both sides", true
	require.NoError(t, alone.Save(two))
	for _, folders := range [][]string{{one, two}, {two, one}} {
		verdicts, err := ReadVerdicts(folders...)
		require.NoError(t, err)
		assert.Equal(t, `| scenario | promise | seen | control: the safeguard off | kept |
|---|---|---|---|---|
| `+"`frozen`"+`: a fault | 0 failed | during: new; after: a \| b | a safeguard: 7 failed | yes |
| `+"`slow`"+`: a fault | 0 failed | during: new; after: a \| b | a safeguard: 7 failed | **no**: 9 failed |
| `+"`loss`"+`: a fault | 0 failed | during: -; after: a \| b | a safeguard: **kept as well, so the scenario proves nothing** | yes |
| `+"`rf1`"+`: a fault (short form) | 0 failed | during: -; after: a \| b | counted on both sides | yes |
`, Table(verdicts))
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
	slow, loss := *verdictOf("slow", 1, "old"), *verdictOf("loss", 1, "old")
	once, err := Replace(document, []Verdict{slow, loss})
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n"+beginMark+"\n\n"+Table([]Verdict{slow, loss})+"\n"+endMark+"\n\nthe end\n", once)

	frozen, newer := *verdictOf("frozen", 2, "new"), *verdictOf("loss", 2, "new")
	twice, err := Replace(once, []Verdict{newer, frozen})
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n"+beginMark+"\n\n"+Table([]Verdict{frozen, slow, newer})+"\n"+endMark+"\n\nthe end\n", twice)

	_, err = Replace("# Title\n", nil)
	require.ErrorContains(t, err, "lacks the lines")
}

// The document of the scoreboard can be written, and no row of it gets lost.
func TestTheScoreboardHasItsMarks(t *testing.T) {
	document, err := os.ReadFile("../../deploy/chaos/README.md")
	require.NoError(t, err)
	written, err := Replace(string(document), nil)
	require.NoError(t, err)
	assert.Equal(t, string(document), written)
}
