package devcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// archive is the JVM's class-data archive of a running node. With it a node starts with half the
// CPU time. It is made once per machine, JVM and set of flags, when the first node of a cluster
// exits.
type archive struct {
	path string // empty if this JVM cannot make one
}

// archiveFor returns the archive of a JVM in the cache folder.
func archiveFor(folder string, tools jdk) archive {
	if tools.major < 13 || !AtLeast(5, 0) { // JEP 350 made archives at exit; before 5.0 agentOf adds an agent
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

// flags returns the flags that make a JVM use the archive. If there is none yet and make is set,
// they make it write one to file when it exits. A JVM that finds the archive stale runs without it.
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

// keep copies the archive that a node has made into the cache. It renames the complete copy, so
// that no JVM ever maps half a file.
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
