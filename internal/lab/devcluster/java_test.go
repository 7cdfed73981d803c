package devcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script writes an executable shell script. It may use only builtins of the shell where a test has
// emptied the PATH.
func script(t *testing.T, path, body string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

// fakeJDK makes a folder that looks like a JDK of this version.
func fakeJDK(t *testing.T, home, version string) {
	t.Helper()
	script(t, filepath.Join(home, "bin", "java"), fmt.Sprintf(`echo 'openjdk version "%s"' >&2`, version))
	script(t, filepath.Join(home, "bin", "javac"), "exit 0")
}

func TestFindJDK(t *testing.T) {
	for sentence, tt := range map[string]struct {
		home, path string   // versions, empty for none
		folders    []string // versions
		major      int
		says       string
	}{
		"nothing anywhere":                       {says: "no JDK 17: looked at JAVA_HOME"},
		"JAVA_HOME has it":                       {home: "17.0.15", major: 17},
		"the PATH has it":                        {path: "17.0.15", major: 17},
		"a folder of the distribution has it":    {folders: []string{"17.0.15"}, major: 17},
		"17 goes before 11":                      {home: "11.0.20", folders: []string{"17.0.15"}, major: 17},
		"11 is better than nothing":              {path: "21.0.1", folders: []string{"11.0.20"}, major: 11},
		"another version does not hide the good": {home: "25", path: "1.8.0_402", folders: []string{"17"}, major: 17},
		"Java 8 has a name of its own":           {path: "1.8.0_402", says: "is Java 8"},
		"only a version that does not work":      {path: "25.0.1", says: "Cassandra 5.0 runs on Java 17 or 11"},
	} {
		t.Run(sentence, func(t *testing.T) {
			root := t.TempDir()
			t.Setenv("JAVA_HOME", "")
			t.Setenv("PATH", filepath.Join(root, "path", "bin"))
			if tt.home != "" {
				fakeJDK(t, filepath.Join(root, "home"), tt.home)
				t.Setenv("JAVA_HOME", filepath.Join(root, "home"))
			}
			if tt.path != "" {
				fakeJDK(t, filepath.Join(root, "path"), tt.path)
			}
			for i, version := range tt.folders {
				fakeJDK(t, filepath.Join(root, "jvm", strconv.Itoa(i)), version)
			}
			found, err := findJDK(t.Context(), []string{filepath.Join(root, "jvm", "*")})
			if tt.says != "" {
				require.ErrorIs(t, err, ErrJava)
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.major, found.major)
			assert.FileExists(t, filepath.Join(found.home(), "bin", "javac"))
		})
	}
}

func TestFindJDKWantsTheCompiler(t *testing.T) {
	home := t.TempDir()
	fakeJDK(t, home, "17.0.15")
	require.NoError(t, os.Remove(filepath.Join(home, "bin", "javac")))
	t.Setenv("JAVA_HOME", home)
	t.Setenv("PATH", "")
	_, err := findJDK(t.Context(), nil)
	require.ErrorContains(t, err, "is Java 17 without its compiler, a JDK is needed")
}

func TestPrerequisitesSayWhatToRun(t *testing.T) {
	quiet := func(Step, string) {}
	home := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", home)
	_, _, err := prerequisites(t.Context(), nil, true, quiet)
	require.ErrorIs(t, err, ErrJava)
	require.ErrorContains(t, err, "install a JDK 17 and Maven")

	fakeJDK(t, home, "17.0.15")
	_, _, err = prerequisites(t.Context(), nil, true, quiet)
	require.ErrorContains(t, err, "no mvn (Apache Maven) in the PATH")

	_, _, err = prerequisites(t.Context(), nil, false, quiet)
	require.NoError(t, err, "Maven is needed for the download only")
}

func TestPrerequisitesAreInstalledOnDebianAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root installs packages")
	}
	bin, home := t.TempDir(), t.TempDir()
	prepared := t.TempDir()
	fakeJDK(t, prepared, "17.0.15")
	script(t, filepath.Join(prepared, "mvn"), "exit 0")
	script(t, filepath.Join(bin, "apt-get"), fmt.Sprintf(
		`case "$*" in *"openjdk-17-jdk-headless maven"*) /bin/cp -r %s/bin %s/; /bin/cp %s/mvn %s/;; esac`, prepared, home, prepared, bin))
	t.Setenv("PATH", bin)
	t.Setenv("JAVA_HOME", home)
	var told []string
	found, maven, err := prerequisites(t.Context(), nil, true, func(_ Step, detail string) { told = append(told, detail) })
	require.NoError(t, err)
	assert.Equal(t, 17, found.major)
	assert.Equal(t, filepath.Join(bin, "mvn"), maven)
	assert.Equal(t, []string{"installing: apt-get install -y openjdk-17-jdk-headless maven"}, told)

	script(t, filepath.Join(bin, "apt-get"), "echo E: no network; exit 100")
	t.Setenv("JAVA_HOME", "")
	_, _, err = prerequisites(t.Context(), nil, true, func(Step, string) {})
	require.ErrorIs(t, err, ErrJava)
	require.ErrorContains(t, err, "installing it failed: apt-get update: exit status 100: E: no network")
}
