// Command coverage computes the share of the statements of each package that tests
// run, from profiles that go test has written. A statement counts as run when it is
// in any profile. The command fails when a package named by -of is below -least.
//
//	coverage -least 90 -of executor,hedge -write CONTRIBUTING.md dist/coverage/*.out
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module = "github.com/qosproxy/qosproxy/"
	// The table of a document stands between these two lines.
	begin, end = "<!-- coverage: written by make coverage-report -->\n", "<!-- end of coverage -->\n"
)

func main() {
	least := flag.Float64("least", 90, "per cent that the packages of -of must have")
	of := flag.String("of", "", "packages below internal that must have it, separated by commas")
	write := flag.String("write", "", "document whose table is written")
	flag.Parse()
	if err := run(os.Stdout, *least, strings.Split(*of, ","), *write, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, least float64, of []string, write string, profiles []string) error {
	blocks := map[string]block{}
	for _, name := range profiles {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := merge(blocks, bytes.NewReader(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	packages := sum(blocks)
	fmt.Fprintf(out, "%-24s %10s %9s\n", "package", "statements", "per cent")
	for _, p := range packages {
		fmt.Fprintf(out, "%-24s %10d %9.1f\n", p.name, p.statements, p.percent())
	}
	if write != "" {
		if err := document(write, packages); err != nil {
			return err
		}
	}
	return gate(packages, least, of)
}

// block is a run of statements that are executed together.
type block struct {
	statements int
	covered    bool
}

// merge adds the blocks of a profile, whose lines are file:from,to statements count.
func merge(blocks map[string]block, profile io.Reader) error {
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && fields[0] == "mode:" {
			continue
		}
		if len(fields) != 3 {
			return fmt.Errorf("not a line of a profile: %q", lines.Text())
		}
		statements, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		b := blocks[fields[0]]
		blocks[fields[0]] = block{statements, b.covered || fields[2] != "0"}
	}
	return lines.Err()
}

// count is the statements of a package, and those that were run.
type count struct {
	name                string
	statements, covered int
}

func (c count) percent() float64 { return 100 * float64(c.covered) / float64(max(c.statements, 1)) }

// sum returns the packages by name, without generated code.
func sum(blocks map[string]block) []count {
	counts := map[string]count{}
	for at, b := range blocks {
		file, _, _ := strings.Cut(at, ":")
		if strings.HasSuffix(file, ".pb.go") {
			continue
		}
		name := path.Dir(strings.TrimPrefix(file, module))
		c := counts[name]
		c.name = name
		c.statements += b.statements
		if b.covered {
			c.covered += b.statements
		}
		counts[name] = c
	}
	return slices.SortedFunc(maps.Values(counts), func(a, b count) int { return cmp.Compare(a.name, b.name) })
}

// gate returns an error when a package in of is below least or in no profile.
func gate(packages []count, least float64, of []string) error {
	var low []string
	for _, name := range of {
		if name == "" {
			continue
		}
		i := slices.IndexFunc(packages, func(c count) bool { return c.name == "internal/"+name })
		switch {
		case i < 0:
			low = append(low, name+" is in no profile")
		case packages[i].percent() < least:
			low = append(low, fmt.Sprintf("%s has %.1f %%", name, packages[i].percent()))
		}
	}
	if len(low) > 0 {
		return fmt.Errorf("coverage: %s; each must have %g %%", strings.Join(low, ", "), least)
	}
	return nil
}

// document replaces the table in a document.
func document(name string, packages []count) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, first := strings.Cut(string(text), begin)
	_, after, second := strings.Cut(rest, end)
	if !first || !second {
		return fmt.Errorf("%s: no lines %q and %q", name, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	var b strings.Builder
	b.WriteString(before + begin + "| package | statements | per cent |\n|---|---:|---:|\n")
	for _, p := range packages {
		fmt.Fprintf(&b, "| %s | %d | %.1f |\n", p.name, p.statements, p.percent())
	}
	b.WriteString(end + after)
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
