// Command report writes the scoreboard of deploy/chaos/README.md from the verdicts
// of one or several runs of make chaos: of each scenario the newest. Rows of others
// stay.
package main

import (
	"fmt"
	"os"

	"github.com/qosproxy/qosproxy/internal/chaos"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: report DOCUMENT FOLDER...; for example: report deploy/chaos/README.md dist/reports/chaos")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// run brings the table of a document up to date.
func run(document string, folders []string) error {
	verdicts, err := chaos.ReadVerdicts(folders...)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	replaced, err := chaos.Replace(string(text), verdicts)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(replaced), 0o644)
}
