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

// order lists the scenarios in the order of the scoreboard.
var order = []string{
	"frozen", "slow", "black-hole", "black-hole-requests", "black-hole-answers", "loss", "delay-one", "delay-all", "killed", "rolling-restart",
	"membership", "all-down", "rf1", "quorum-lost",
	"replicas-frozen", "replicas-slow", "replicas-killed", "replicas-black-hole", "thaw", "hedge-storm", "overload", "priorities", "greedy", "no-harm", "schema", "tombstones", "prepared",
	"memory", "flood-requests", "flood-answers", "slow-readers", "cancelled", "sigterm", "reload", "abuse",
}

// Verdict is the stored result of a scenario, as JSON.
type Verdict struct {
	// Scenario is the name of the scenario.
	Scenario string `json:"scenario"`
	// Fault is what was done, Promise what must hold meanwhile, and Rely what a user may rely on, one
	// sentence each.
	Fault   string `json:"fault"`
	Promise string `json:"promise"`
	Rely    string `json:"rely_on"`
	// Tries are the single tries and Sum is their merged outcome. Checks compare Sum with the promise,
	// and Kept is whether all checks hold.
	Tries  []*Outcome `json:"tries"`
	Sum    *Outcome   `json:"sum"`
	Checks []Check    `json:"checks"`
	Kept   bool       `json:"kept"`
	// Without names the safeguard that was off in Control, which must break one of ControlChecks
	// tenfold. Without a control, Why says what else shows that the measurement can fail.
	Without       string   `json:"control_without,omitempty"`
	Why           string   `json:"no_control_because,omitempty"`
	Control       *Outcome `json:"control,omitempty"`
	ControlChecks []Check  `json:"control_checks,omitempty"`
	// Short is set when the scenario ran in its short form.
	Short bool `json:"short,omitempty"`
	// Start is when the scenario began, and Seconds how long it took, including its control.
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
}

// Judge merges the tries and checks the sum against the promise, and the control if there is one.
func (v *Verdict) Judge(promise func(*Outcome) []Check) {
	v.Sum = Merge(v.Tries...)
	v.Checks = promise(v.Sum)
	v.Kept = len(v.Checks) > 0 && !slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.Kept() })
	if v.Control != nil {
		v.ControlChecks = promise(v.Control)
	}
}

// Proven reports whether the control broke the promise tenfold. It is true without a control.
func (v *Verdict) Proven() bool {
	return v.Control == nil || slices.ContainsFunc(v.ControlChecks, func(c Check) bool { return c.Broken() })
}

// NotKept lists the checks that failed; empty when all hold.
func (v *Verdict) NotKept() string { return text(v.Checks, func(c *Check) bool { return !c.Kept() }) }

// Save writes the verdict to a file with the name of its scenario. It creates the folder if needed.
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

// ReadVerdicts reads all verdicts in and below the folders and returns the newest of each scenario.
// It is an error when there is none, or when a JSON file is not a verdict.
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
			if v.Scenario == "" || len(v.Tries) == 0 || v.Sum == nil {
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

// Board returns the scoreboard in Markdown.
func Board(verdicts []Verdict) string { return table(lines(verdicts)) }

// table returns the scoreboard from its rows, keyed by scenario.
func table(lines map[string]string) string {
	var b strings.Builder
	b.WriteString("| scenario | you can rely on | promise | seen, all tries together | each try | control | kept |\n|---|---|---|---|---|---|---|\n")
	for _, name := range order {
		b.WriteString(lines[name])
	}
	return b.String()
}

// lines returns the rows of the scoreboard, keyed by scenario.
func lines(verdicts []Verdict) map[string]string {
	out := map[string]string{}
	for _, v := range verdicts {
		kept := "yes"
		if !v.Kept {
			kept = "**no**: " + v.NotKept()
		}
		name := fmt.Sprintf("`%s`: %s", v.Scenario, v.Fault)
		if v.Short {
			name += " (short form)"
		}
		var tries []string
		for i, o := range v.Tries {
			tries = append(tries, fmt.Sprintf("%d: %s", i+1, o.Short()))
		}
		row := []string{name, v.Rely, v.Promise, v.Sum.String(), strings.Join(tries, "<br>"), v.control(), kept}
		for i := range row {
			row[i] = strings.ReplaceAll(strings.ReplaceAll(row[i], "|", `\|`), "\n", " ")
		}
		out[v.Scenario] = "| " + strings.Join(row, " | ") + " |\n"
	}
	return out
}

// control describes what the control has shown.
func (v *Verdict) control() string {
	switch {
	case v.Control == nil:
		return "none: " + v.Why
	case !v.Proven():
		return fmt.Sprintf("%s: **not broken tenfold, so the scenario proves nothing**: %s", v.Without, text(v.ControlChecks, func(c *Check) bool { return !c.Sane }))
	default:
		return v.Without + ": " + text(v.ControlChecks, (*Check).Broken)
	}
}

// The lines of a document between which Replace puts the scoreboard.
const (
	beginMark = "<!-- scoreboard: make chaos-report -->"
	endMark   = "<!-- end of scoreboard -->"
)

// rowName matches a row of the scoreboard and captures its scenario.
var rowName = regexp.MustCompile("^\\| `([a-z0-9-]+)`: .*\n")

// Replace returns the document with the rows of these verdicts replaced, between its marks. Rows of
// other scenarios stay. It is an error if a mark is missing.
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
