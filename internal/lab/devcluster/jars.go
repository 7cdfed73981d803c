package devcluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed pom.xml
var pom string

// completeMarker is the file that marks a complete download.
const completeMarker = "complete"

// cacheFolder returns the folder that holds Cassandra's jars and the class archives.
func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("devcluster: no cache folder for Cassandra's jars, set HOME or XDG_CACHE_HOME: %w", err)
	}
	return filepath.Join(base, "qosproxy", "cassandra-"+Version), nil
}

func haveJars(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, completeMarker))
	return err == nil
}

// fetchJars downloads Cassandra and its dependencies into folder/lib with Maven, unless they are
// there. If several processes need them, one downloads and the others wait. An interrupted download
// leaves nothing that could be taken for a complete one.
func fetchJars(ctx context.Context, maven string, tools jdk, folder string, progress func(Step, string)) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("devcluster: cache folder for Cassandra's jars: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(folder, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if haveJars(folder) {
		return nil
	}
	progress(StepJars, fmt.Sprintf("downloading Apache Cassandra %s from Maven's repository (some 70 MB, once)", Version))
	staging, err := os.MkdirTemp(folder, "download-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }()
	if err := runMaven(ctx, maven, tools, staging, progress); err != nil {
		return err
	}
	lib := filepath.Join(folder, "lib")
	// A class archive works only with the jars from which it was made.
	archives, _ := filepath.Glob(filepath.Join(folder, "classes-*"))
	for _, old := range append(archives, lib) {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(staging, "lib"), lib); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, completeMarker), []byte(Version+"\n"), 0o644)
}

func runMaven(ctx context.Context, maven string, tools jdk, staging string, progress func(Step, string)) error {
	pomFile := filepath.Join(staging, "pom.xml")
	if err := os.WriteFile(pomFile, []byte(strings.ReplaceAll(pom, "@VERSION@", Version)), 0o644); err != nil {
		return err
	}
	lib := filepath.Join(staging, "lib")
	cmd := exec.CommandContext(ctx, maven, "--batch-mode", "--quiet", "-f", pomFile,
		"dependency:copy-dependencies", "-DoutputDirectory="+lib)
	cmd.Env = append(os.Environ(), "JAVA_HOME="+tools.home())
	// Maven's launcher is a shell script: without a limit its JVM would keep Wait from returning after
	// ctx has ended.
	cmd.WaitDelay = 5 * time.Second
	stop := every(time.Second, func() {
		if jars, _ := filepath.Glob(filepath.Join(lib, "*.jar")); len(jars) > 0 {
			progress(StepJars, fmt.Sprintf("%d jars", len(jars)))
		}
	})
	output, err := cmd.CombinedOutput()
	stop()
	if err != nil {
		return fmt.Errorf("devcluster: download Cassandra %s by Maven (proxies and mirrors are set in ~/.m2/settings.xml): %w: %s",
			Version, err, firstLines(string(output), 3))
	}
	if len(jarsIn(staging)) == 0 {
		return fmt.Errorf("devcluster: Maven said it had downloaded Cassandra %s but there is no cassandra-all jar in %s", Version, lib)
	}
	return nil
}

// jarsIn returns the jars of folder/lib in a fixed order, because class archives depend on the
// order; none when Cassandra's own jar is missing.
func jarsIn(folder string) []string {
	jars, _ := filepath.Glob(filepath.Join(folder, "lib", "*.jar"))
	slices.Sort(jars)
	own := filepath.Join(folder, "lib", "cassandra-all-"+Version+".jar")
	if !slices.Contains(jars, own) {
		return nil
	}
	return jars
}

// lockFile locks a file exclusively and returns a function that releases the lock. It waits for
// another holder until ctx ends.
func lockFile(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another download of Cassandra (%s): %w", path, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
