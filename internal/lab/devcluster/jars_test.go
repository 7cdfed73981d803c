package devcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInstallIsFetched(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads Cassandra")
	}
	cfg, err := Config{Nodes: Racks("dc1", "r1"), Progress: func(e Event) { t.Log(e.Step, e.Detail) }}.withDefaults()
	require.NoError(t, err)
	c := &Cluster{cfg: cfg}
	require.NoError(t, c.prepareInstall(t.Context()))
	require.Contains(t, c.install.classPath, "cassandra-all-"+Version+".jar")
}

// fakeMaven makes an mvn that counts its calls and then runs body, with the folder
// for the jars in $lib.
func fakeMaven(t *testing.T, body string) (maven string, calls func() int) {
	t.Helper()
	dir := t.TempDir()
	maven = filepath.Join(dir, "mvn")
	script(t, maven, fmt.Sprintf(`echo call >>%s/calls
for arg; do case $arg in -DoutputDirectory=*) lib=${arg#*=}; mkdir -p "$lib";; esac; done
%s`, dir, body))
	return maven, func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "calls"))
		return strings.Count(string(text), "call")
	}
}

func TestJarsAreFetchedOnce(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cache")
	maven, calls := fakeMaven(t, `[ "$JAVA_HOME" = /jdk ] && touch "$lib/a.jar" "$lib/cassandra-all-5.0.9.jar"`)
	tools := jdk{java: "/jdk/bin/java"}
	for range 2 {
		require.NoError(t, fetchJars(t.Context(), maven, tools, folder, func(Step, string) {}))
	}
	assert.Equal(t, 1, calls())
	assert.Equal(t, []string{filepath.Join(folder, "lib", "a.jar"), filepath.Join(folder, "lib", "cassandra-all-5.0.9.jar")}, jarsIn(folder))

	entries, err := filepath.Glob(filepath.Join(folder, "download-*"))
	require.NoError(t, err)
	assert.Empty(t, entries, "nothing is left of the download")
}

func TestBrokenDownloadLeavesNothing(t *testing.T) {
	for sentence, body := range map[string]string{
		"Maven fails half way":          `touch "$lib/cassandra-all-5.0.9.jar"; echo '[ERROR] no route to host'; exit 1`,
		"Maven succeeds with the wrong": `touch "$lib/other.jar"`,
	} {
		t.Run(sentence, func(t *testing.T) {
			folder := t.TempDir()
			maven, _ := fakeMaven(t, body)
			require.Error(t, fetchJars(t.Context(), maven, jdk{}, folder, func(Step, string) {}))
			assert.False(t, haveJars(folder))
			assert.NoDirExists(t, filepath.Join(folder, "lib"))
		})
	}
}

func TestNewJarsTakeTheOldArchiveAway(t *testing.T) {
	folder := t.TempDir()
	old := filepath.Join(folder, "classes-old.jsa")
	require.NoError(t, os.WriteFile(old, nil, 0o644))
	maven, _ := fakeMaven(t, `touch "$lib/cassandra-all-5.0.9.jar"`)
	require.NoError(t, fetchJars(t.Context(), maven, jdk{}, folder, func(Step, string) {}))
	assert.NoFileExists(t, old)
}

func TestDownloadWaitsForAnother(t *testing.T) {
	folder := t.TempDir()
	unlock, err := lockFile(t.Context(), filepath.Join(folder, "lock"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	maven, calls := fakeMaven(t, "")
	err = fetchJars(ctx, maven, jdk{}, folder, func(Step, string) {})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "wait for another download")
	assert.Zero(t, calls())
	unlock()
	again, err := lockFile(t.Context(), filepath.Join(folder, "lock"))
	require.NoError(t, err)
	again()
}

func TestArchive(t *testing.T) {
	folder := t.TempDir()
	made := filepath.Join(t.TempDir(), "classes.jsa")
	require.NoError(t, os.WriteFile(made, []byte("classes"), 0o644))

	assert.Empty(t, archiveFor(folder, jdk{major: 11}).flags(made, true), "Java 11 has no archives of applications")
	a := archiveFor(folder, jdk{major: 17, version: "17.0.15"})
	assert.NotEqual(t, a, archiveFor(folder, jdk{major: 17, version: "17.0.16"}), "each build of the JVM has its own")

	assert.Contains(t, a.flags(made, true), "-XX:ArchiveClassesAtExit="+made)
	assert.Empty(t, a.flags(made, false), "one node makes it")
	require.NoError(t, a.keep(made))
	assert.Contains(t, a.flags(made, true), "-XX:SharedArchiveFile="+a.path)
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{a.path}, left)
}
