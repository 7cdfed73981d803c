package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// order are the scenarios in the order of the scoreboard.
var order = []string{
	"frozen", "slow", "killed", "black-hole", "black-hole-requests", "black-hole-answers", "loss", "delay-one", "delay-all", "rolling-restart",
	"membership", "all-down", "rf1", "quorum-lost", "thaw", "hedge-storm", "overload", "priorities", "greedy", "schema", "tombstones", "prepared",
	"memory", "cancelled", "sigterm", "reload", "abuse",
}

// Verdict is what is kept of a scenario that has run, as JSON.
type Verdict struct {
	// Scenario is its name.
	Scenario string `json:"scenario"`
	// Fault is what was done, and Promise what must hold meanwhile.
	Fault   string `json:"fault"`
	Promise string `json:"promise"`
	// Kept is whether the last of Tries kept the promise.
	Kept  bool      `json:"kept"`
	Tries []Outcome `json:"tries"`
	// Without says what was off in Control, which must break the promise. Where
	// there is no such run, Why says what shows that the measurement can fail.
	Without string   `json:"control_without,omitempty"`
	Why     string   `json:"no_control_because,omitempty"`
	Control *Outcome `json:"control,omitempty"`
	// Short is set when it ran in the short form.
	Short bool `json:"short,omitempty"`
	// Start is when it began, and Seconds how long it took with its control.
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
}

// Outcome is what one measurement has seen.
type Outcome struct {
	// Figures are name and value, in the order in which they are read.
	Figures [][2]string `json:"figures"`
	// Broken are the promises that were not kept, with the figure.
	Broken []string `json:"broken,omitempty"`

	p50 float64 // seconds
}

// String is the figures in one line.
func (o *Outcome) String() string {
	parts := make([]string, len(o.Figures))
	for i, f := range o.Figures {
		parts[i] = f[0] + " " + f[1]
	}
	return strings.Join(parts, "; ")
}

// Save writes a verdict into a folder, which it makes, under the name of its
// scenario.
func (v *Verdict) Save(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, v.Scenario+".json"), append(data, '\n'), 0o644)
}

// ReadVerdicts reads the verdicts of all runs in some folders and those below them:
// of each scenario the newest. It is an error when there is none.
func ReadVerdicts(folders ...string) ([]Verdict, error) {
	newest := map[string]Verdict{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".json" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var v Verdict
			if err := json.Unmarshal(data, &v); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if v.Scenario == "" || len(v.Tries) == 0 {
				return fmt.Errorf("%s is not the verdict of a scenario; name a folder that make chaos has written", path)
			}
			if old, ok := newest[v.Scenario]; !ok || v.Start.After(old.Start) {
				newest[v.Scenario] = v
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(newest) == 0 {
		return nil, fmt.Errorf("there are no verdicts below %s; run make chaos first", strings.Join(folders, ", "))
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b Verdict) int { return strings.Compare(a.Scenario, b.Scenario) }), nil
}

// Table is the scoreboard in Markdown, in its order.
func Table(verdicts []Verdict) string { return table(lines(verdicts)) }

// table is the scoreboard of lines by the name of their scenario.
func table(lines map[string]string) string {
	var b strings.Builder
	b.WriteString("| scenario | promise | seen | control: the safeguard off | kept |\n|---|---|---|---|---|\n")
	for _, name := range order {
		b.WriteString(lines[name])
	}
	return b.String()
}

// lines are the rows of a table by the name of their scenario.
func lines(verdicts []Verdict) map[string]string {
	out := map[string]string{}
	for _, v := range verdicts {
		kept := "yes"
		if !v.Kept {
			kept = "**no**"
			if last := v.Tries[len(v.Tries)-1]; len(last.Broken) > 0 {
				kept += ": " + strings.Join(last.Broken, "; ")
			}
		}
		name := fmt.Sprintf("`%s`: %s", v.Scenario, v.Fault)
		if v.Short {
			name += " (short form)"
		}
		row := []string{name, v.Promise, v.Tries[len(v.Tries)-1].String(), v.control(), kept}
		for i := range row {
			row[i] = strings.ReplaceAll(strings.ReplaceAll(row[i], "|", `\|`), "\n", " ")
		}
		out[v.Scenario] = "| " + strings.Join(row, " | ") + " |\n"
	}
	return out
}

// control is what the run with the safeguard off has shown.
func (v *Verdict) control() string {
	switch {
	case v.Control == nil:
		return v.Why
	case len(v.Control.Broken) == 0:
		return v.Without + ": **kept as well, so the scenario proves nothing**"
	default:
		return v.Without + ": " + strings.Join(v.Control.Broken, "; ")
	}
}

// The lines of a document between which Replace puts the scoreboard.
const (
	beginMark = "<!-- scoreboard: make chaos-report -->"
	endMark   = "<!-- end of scoreboard -->"
)

// rowName finds the scenario of a line of the scoreboard.
var rowName = regexp.MustCompile("^\\| `([a-z0-9-]+)`: .*\n")

// Replace returns a document in which verdicts have taken the places of the rows of
// their scenarios, between its marks. Rows of other scenarios stay.
func Replace(document string, verdicts []Verdict) (string, error) {
	before, rest, begun := strings.Cut(document, beginMark)
	old, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return "", errors.New("the document lacks the lines " + beginMark + " and " + endMark + ", between which the table goes; add them")
	}
	all := map[string]string{}
	for line := range strings.Lines(old) {
		if name := rowName.FindStringSubmatch(line); name != nil {
			all[name[1]] = line
		}
	}
	maps.Copy(all, lines(verdicts))
	return before + beginMark + "\n\n" + table(all) + "\n" + endMark + after, nil
}
