package devcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// archive is the JVM's class-data archive of a running node: with it a node
// starts on half the CPU time. It is made once per machine, JVM and set of
// flags, at the exit of the first node of the first cluster.
type archive struct {
	path string // empty: this JVM cannot make one
}

// archiveFor names the archive of a JVM in the cache folder.
func archiveFor(folder string, tools jdk) archive {
	if tools.major < 13 || !AtLeast(5, 0) { // JEP 350: archives of applications at exit; agentOf
		return archive{}
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, strings.Join(append([]string{tools.java, tools.version}, vmFlags()...), "\n"))
	return archive{filepath.Join(folder, "classes-"+hex.EncodeToString(sum.Sum(nil)[:6])+".jsa")}
}

func (a archive) exists() bool {
	_, err := os.Stat(a.path)
	return a.path != "" && err == nil
}

// flags returns what makes a JVM use the archive or, if there is none yet and
// the node is the one chosen to, make it in file when it exits. A JVM
// that finds the archive stale runs without it.
func (a archive) flags(file string, make bool) []string {
	switch {
	case a.exists():
		return []string{"-Xshare:auto", "-XX:SharedArchiveFile=" + a.path, "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}
	case a.path != "" && make:
		return []string{"-Xshare:auto", "-XX:ArchiveClassesAtExit=" + file, "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}
	default:
		return nil
	}
}

// keep moves the archive a node has made into the cache. The file is copied
// to a new name and renamed, so that no JVM ever maps half of it.
func (a archive) keep(file string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.CreateTemp(filepath.Dir(a.path), "classes-*.tmp")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(to.Name()) }()
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(to.Name(), a.path)
}
