package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The limits of a document.
const (
	readmeWords = 900
	columns     = 100
)

const root = "../.."

// documents returns the Markdown files of the repository, by path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata", "node_modules", "target"}, entry.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	}))
	require.Contains(t, all, "README.md")
	return all
}

// prose returns the lines of a document that are not code, by number.
func prose(text string) map[int]string {
	lines, code := map[int]string{}, false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			lines[i+1] = line
		}
	}
	return lines
}

// anchors returns the names by which a forge links to the headings of a document.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, line := range prose(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(strings.TrimLeft(line, "#")))] = true
	}
	return found
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	span = regexp.MustCompile("`[^`\n]*`")
)

// links returns the links of a document to files of the repository: the path from the
// root, and the anchor or an empty string.
func links(name, text string) [][2]string {
	var lines []string
	for _, line := range prose(text) {
		lines = append(lines, span.ReplaceAllString(line, ""))
	}
	var found [][2]string
	for _, m := range link.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		path, anchor, _ := strings.Cut(m[1], "#")
		if path == "" {
			path = name
		} else {
			path = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
		}
		found = append(found, [2]string{path, anchor})
	}
	return found
}

func TestLinksOfDocumentsLead(t *testing.T) {
	all := documents(t)
	for name, text := range all {
		for _, to := range links(name, text) {
			_, err := os.Stat(filepath.Join(root, to[0]))
			if assert.NoError(t, err, "%s links to %s", name, to[0]) && to[1] != "" {
				assert.True(t, anchors(all[to[0]])[to[1]], "%s links to %s, which has no heading %q", name, to[0], to[1])
			}
		}
	}
}

func TestEveryGuideIsOneStepFromTheReadme(t *testing.T) {
	all := documents(t)
	linked := map[string]bool{"README.md": true}
	for _, to := range links("README.md", all["README.md"]) {
		linked[to[0]] = true
	}
	for name := range all {
		if filepath.Base(name) != "DESIGN.md" {
			assert.True(t, linked[name], "README.md does not link to %s", name)
		}
	}
}

func TestTheReadmeIsShort(t *testing.T) {
	assert.LessOrEqual(t, len(strings.Fields(documents(t)["README.md"])), readmeWords, "words; guides have room for more")
}

// Tables, and lines of one word such as a link, cannot be broken.
func TestLinesOfDocumentsAreShort(t *testing.T) {
	for name, text := range documents(t) {
		for n, line := range prose(text) {
			if strings.HasPrefix(line, "|") || len(strings.Fields(line)) == 1 {
				continue
			}
			assert.LessOrEqual(t, utf8.RuneCountInString(line), columns, "%s:%d", name, n)
		}
	}
}
