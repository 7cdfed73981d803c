package clienttest

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// builds has the commands of the clients that were built in this process, by language.
var builds sync.Map

// Command builds the client of a language in the folder api, an absolute path, and runs its own
// tests. It returns the command line of its conformance program. What has not changed since is
// not done again.
func Command(t testing.TB, api, language string) []string {
	t.Helper()
	if built, ok := builds.Load(language); ok {
		return built.([]string)
	}
	var command []string
	switch language {
	case "Python":
		command = []string{Python(t, api), filepath.Join(api, "python", "tests", "conformance.py")}
	case "TypeScript":
		command = typescript(t, api)
	case "Java":
		command = java(t, api)
	default:
		t.Fatal("no program in " + language)
	}
	builds.Store(language, command)
	return command
}

// Python returns the interpreter of an environment with the packages of requirements.txt, which
// is kept in the user's cache, and the client.
func Python(t testing.TB, api string) string {
	t.Helper()
	folder := filepath.Join(api, "python")
	interpreter := look(t, "python3", "python3-venv")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	requirements := filepath.Join(folder, "requirements.txt")
	// Editable, so that the environment uses the files of the folder.
	dir := filepath.Join(cache, "qosproxy", "python-"+fingerprint(t, interpreter, requirements, filepath.Join(folder, "pyproject.toml"), folder))
	bin := filepath.Join(dir, "bin", "python")
	if done(dir) {
		return bin
	}
	fetch(t, folder, interpreter, "-m", "venv", "--clear", dir)
	fetch(t, folder, bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "-r", requirements)
	build(t, folder, bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--editable", ".")
	finish(t, dir)
	return bin
}

func typescript(t testing.TB, api string) []string {
	t.Helper()
	node := look(t, "node", "nodejs")
	npm := look(t, "npm", "npm")
	folder := filepath.Join(api, "typescript")
	modules := filepath.Join(folder, "node_modules")
	if lock := fingerprint(t, node, filepath.Join(folder, "package-lock.json")); !done(modules, lock) {
		begin(t, modules)
		fetch(t, folder, npm, "ci", "--no-fund", "--no-audit", "--loglevel=error", "--fetch-retries=1")
		finish(t, modules, lock)
	}
	dist := filepath.Join(folder, "dist")
	if sources := fingerprint(t, node, sourcesOf(t, api, folder, "node_modules", "dist", "gen")...); !done(dist, sources) {
		begin(t, dist)
		build(t, folder, npm, "run", "--silent", "build")
		build(t, folder, npm, "test", "--silent")
		finish(t, dist, sources)
	}
	return []string{node, filepath.Join(dist, "test", "conformance.js")}
}

func java(t testing.TB, api string) []string {
	t.Helper()
	run := look(t, "java", "default-jdk-headless")
	look(t, "javac", "default-jdk-headless")
	folder := filepath.Join(api, "java")
	target := filepath.Join(folder, "target")
	if sources := fingerprint(t, run, sourcesOf(t, api, folder, "target")...); !done(target, sources) {
		begin(t, target)
		// The wrapper downloads the version of Maven that it names.
		fetch(t, folder, "./mvnw", "--batch-mode", "--version")
		out, err := step(t, folder, "./mvnw", "--batch-mode", "--quiet", "package")
		if strings.Contains(string(out), "Could not transfer artifact") {
			missing(t, "mvnw package: %v\n%s", err, out)
		}
		if err != nil {
			t.Fatalf("mvnw package: %v\n%s", err, out)
		}
		finish(t, target, sources)
	}
	libraries, err := os.ReadFile(filepath.Join(target, "classpath"))
	if err != nil {
		t.Fatal(err)
	}
	classes := []string{filepath.Join(target, "test-classes"), filepath.Join(target, "classes"), strings.TrimSpace(string(libraries))}
	return []string{run, "-XX:TieredStopAtLevel=1", "-cp", strings.Join(classes, string(os.PathListSeparator)), "io.github.qosproxy.Conformance"}
}

// look finds a program. If it is missing, look ends the test with the Debian package that has it.
func look(t testing.TB, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		missing(t, "there is no %s (Debian: apt-get install %s)", program, debian)
	}
	return path
}

// fetch runs a build step that needs a registry. If it fails, the language counts as missing.
func fetch(t testing.TB, folder, program string, args ...string) {
	t.Helper()
	if out, err := step(t, folder, program, args...); err != nil {
		missing(t, "%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// build runs a build step in a folder.
func build(t testing.TB, folder, program string, args ...string) {
	t.Helper()
	if out, err := step(t, folder, program, args...); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func step(t testing.TB, folder, program string, args ...string) ([]byte, error) {
	t.Helper()
	run := exec.CommandContext(t.Context(), program, args...)
	run.Dir = folder
	return run.CombinedOutput()
}

// sourcesOf returns the files that a build depends on: the proto files, and those in the folder
// of a language except in subfolders named but.
func sourcesOf(t testing.TB, api, folder string, but ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(api, "qosproxy", "v1", "*.proto"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, name := range but {
			if d.IsDir() && d.Name() == name {
				return filepath.SkipDir
			}
		}
		if !d.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fingerprint returns a hash of a program and of files, by path and content. Folders and missing
// files count by their path alone.
func fingerprint(t testing.TB, program string, paths ...string) string {
	t.Helper()
	sum := sha256.New()
	sum.Write([]byte(program + "\x00"))
	for _, path := range paths {
		sum.Write([]byte(path + "\x00"))
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// complete is the file in a folder that records what the folder was built from.
const complete = "complete"

func done(dir string, of ...string) bool {
	text, err := os.ReadFile(filepath.Join(dir, complete))
	return err == nil && string(text) == strings.Join(of, "")
}

// begin marks a folder as incomplete before it is built, so that a failed build is not mistaken
// for the previous one.
func begin(t testing.TB, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, complete)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func finish(t testing.TB, dir string, of ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, complete), []byte(strings.Join(of, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}
