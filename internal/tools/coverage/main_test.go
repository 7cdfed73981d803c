package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCoverage(t *testing.T) {
	const unit = "mode: atomic\n" + module + "internal/hedge/a.go:1.1,2.2 8 1\n" + module + "internal/hedge/a.go:3.1,4.2 2 0\n" + module + "api/x.pb.go:1.1,2.2 9 0\n"
	const cluster = "mode: set\n" + module + "internal/hedge/a.go:3.1,4.2 2 1\n"
	for name, c := range map[string]struct {
		profiles []string
		of       string
		wrong    string
	}{
		"below the least":                   {[]string{unit}, "hedge", "hedge has 80.0 %"},
		"two profiles together":             {[]string{unit, cluster}, "hedge", ""},
		"a package that nobody has tested":  {[]string{unit, cluster}, "hedge,executor", "executor is in no profile"},
		"a file that is no profile":         {[]string{"something else"}, "", "not a line of a profile"},
		"nothing that must have its share":  {[]string{unit}, "", ""},
		"generated code, which is left out": {[]string{unit}, "../api", "is in no profile"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var files []string
			for i, text := range c.profiles {
				files = append(files, filepath.Join(dir, string(rune('a'+i))))
				if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			err := run(&out, 90, strings.Split(c.of, ","), "", files)
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("got %v, want %q", err, c.wrong)
			}
		})
	}
}

func TestTheTableOfADocumentIsWrittenAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "doc.md")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + begin + "old\n" + end + "after\n")
	if err := document(name, []count{{"internal/hedge", 10, 9}}); err != nil {
		t.Fatal(err)
	}
	want := "before\n" + begin + "| package | statements | per cent |\n|---|---:|---:|\n| internal/hedge | 10 | 90.0 |\n" + end + "after\n"
	if got, _ := os.ReadFile(name); string(got) != want {
		t.Errorf("got %s", got)
	}
	write("no table\n")
	if document(name, nil) == nil {
		t.Error("a document without the lines was written")
	}
}
