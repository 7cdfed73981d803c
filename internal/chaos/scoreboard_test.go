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
func verdictOf(name string, order, minute int, seen string, broken ...string) *Verdict {
	return &Verdict{
		Scenario: name, Order: order, Fault: "a fault", Promise: "0 failed", Kept: len(broken) == 0,
		Tries:   []Outcome{{Figures: [][2]string{{"early:", "x"}}, Broken: []string{"y"}}, {Figures: [][2]string{{"during:", seen}, {"after:", "a | b"}}, Broken: broken}},
		Without: "a safeguard", Control: &Outcome{Broken: []string{"7 failed"}}, Start: time.Unix(0, 0).Add(time.Duration(minute) * time.Minute),
	}
}

func TestTheNewestVerdictOfEachScenarioIsOnTheBoard(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	require.NoError(t, verdictOf("second", 2, 5, "old").Save(filepath.Join(one, "deeper")))
	require.NoError(t, verdictOf("first", 1, 9, "new").Save(one))
	require.NoError(t, verdictOf("first", 1, 3, "old").Save(two))
	require.NoError(t, verdictOf("second", 2, 6, "new", "9 failed").Save(two))
	useless := verdictOf("third", 3, 1, "-")
	useless.Control.Broken = nil
	require.NoError(t, useless.Save(two))
	alone := verdictOf("fourth", 4, 1, "-")
	alone.Control, alone.Why, alone.Short = nil, "counted on both sides", true
	require.NoError(t, alone.Save(two))
	for _, folders := range [][]string{{one, two}, {two, one}} {
		verdicts, err := ReadVerdicts(folders...)
		require.NoError(t, err)
		assert.Equal(t, `| scenario | promise | seen | control: the safeguard off | kept |
|---|---|---|---|---|
| `+"`first`"+`: a fault | 0 failed | during: new; after: a \| b | a safeguard: 7 failed | yes |
| `+"`second`"+`: a fault | 0 failed | during: new; after: a \| b | a safeguard: 7 failed | **no**: 9 failed |
| `+"`third`"+`: a fault | 0 failed | during: -; after: a \| b | a safeguard: **kept as well, so the scenario proves nothing** | yes |
| `+"`fourth`"+`: a fault (short form) | 0 failed | during: -; after: a \| b | counted on both sides | yes |
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

func TestTheTableStandsBetweenItsMarks(t *testing.T) {
	document := "# Title\n\n" + beginMark + "\nold\n" + endMark + "\n\nthe end\n"
	once, err := Replace(document, "| new |\n")
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n"+beginMark+"\n\n| new |\n\n"+endMark+"\n\nthe end\n", once)
	twice, err := Replace(once, "| new |\n")
	require.NoError(t, err)
	assert.Equal(t, once, twice)
	_, err = Replace("# Title\n", "| new |\n")
	require.ErrorContains(t, err, "lacks the lines")
}

// The document of the scoreboard can be written.
func TestTheScoreboardHasItsMarks(t *testing.T) {
	document, err := os.ReadFile("../../deploy/chaos/README.md")
	require.NoError(t, err)
	_, err = Replace(string(document), "")
	require.NoError(t, err)
}
