package devcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrJava means that no usable JDK was found and none could be installed.
var ErrJava = errors.New("no JDK 17")

// javaMajors are the major versions of Java that Cassandra 5.0 runs on, best first. Older versions
// of Cassandra are not made for 17, but run on it with the same flags.
var javaMajors = []int{17, 11}

// jdkFolders are where distributions put their JDKs.
var jdkFolders = []string{"/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home"}

// jdk is a JDK on this machine.
type jdk struct {
	java    string // path of the java command
	major   int
	version string // output of java -version, including the JVM's build
}

// findJDK returns the best JDK in JAVA_HOME, the PATH and the given folders. The error lists each
// rejected Java with the reason.
func findJDK(ctx context.Context, folders []string) (jdk, error) {
	var rejected []string
	var found []jdk
	for _, java := range javaCandidates(folders) {
		candidate, err := inspectJDK(ctx, java)
		switch {
		case err != nil:
			rejected = append(rejected, fmt.Sprintf("%s (%v)", java, err))
		default:
			found = append(found, candidate)
		}
	}
	for _, major := range javaMajors {
		if i := slices.IndexFunc(found, func(j jdk) bool { return j.major == major }); i >= 0 {
			return found[i], nil
		}
	}
	if len(rejected) == 0 {
		return jdk{}, fmt.Errorf("%w: looked at JAVA_HOME, PATH and %s", ErrJava, strings.Join(folders, ", "))
	}
	return jdk{}, fmt.Errorf("%w: Cassandra 5.0 runs on Java 17 or 11, passed over %s", ErrJava, strings.Join(rejected, ", "))
}

// javaCandidates returns the java commands to inspect, in order and without duplicates.
func javaCandidates(folders []string) []string {
	var paths []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		paths = append(paths, filepath.Join(home, "bin", "java"))
	}
	if java, err := exec.LookPath("java"); err == nil {
		paths = append(paths, java)
	}
	for _, pattern := range folders {
		// Glob fails only for a malformed pattern, which this is not.
		matches, _ := filepath.Glob(filepath.Join(pattern, "bin", "java"))
		paths = append(paths, matches...)
	}
	var unique []string
	for _, path := range paths {
		// Resolve links in the PATH: javac is only beside the real java.
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(unique, real) {
			unique = append(unique, real)
		}
	}
	return unique
}

var javaVersion = regexp.MustCompile(`version "(\d+)(?:\.(\d+))?`)

// inspectJDK runs java -version and checks that the compiler is beside it.
func inspectJDK(ctx context.Context, java string) (jdk, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return jdk{}, fmt.Errorf("java -version: %w", err)
	}
	match := javaVersion.FindSubmatch(output)
	if match == nil {
		return jdk{}, fmt.Errorf("java -version answered %q", bytes.TrimSpace(output))
	}
	// The pattern matched digits, and a version number is short.
	major, _ := strconv.Atoi(string(match[1]))
	if major == 1 { // Java 8 calls itself 1.8.
		major, _ = strconv.Atoi(string(match[2]))
	}
	if !slices.Contains(javaMajors, major) {
		return jdk{}, fmt.Errorf("is Java %d", major)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(java), "javac")); err != nil {
		return jdk{}, fmt.Errorf("is Java %d without its compiler, a JDK is needed", major)
	}
	return jdk{java: java, major: major, version: string(bytes.TrimSpace(output))}, nil
}

// home returns the JDK's folder, as for JAVA_HOME.
func (j jdk) home() string { return filepath.Dir(filepath.Dir(j.java)) }

// debianPackages provide java and mvn.
var debianPackages = []string{"openjdk-17-jdk-headless", "maven"}

// prerequisites returns a JDK and, if needed, the path of Maven. As root on Debian it installs what
// is missing; elsewhere the error says which command installs it.
func prerequisites(ctx context.Context, folders []string, needMaven bool, progress func(Step, string)) (jdk, string, error) {
	look := func() (jdk, string, error) {
		found, err := findJDK(ctx, folders)
		if err != nil || !needMaven {
			return found, "", err
		}
		maven, err := exec.LookPath("mvn")
		if err != nil {
			return found, "", errors.New("no mvn (Apache Maven) in the PATH; it downloads Cassandra")
		}
		return found, maven, nil
	}
	found, maven, err := look()
	if err == nil {
		return found, maven, nil
	}
	if ended := ctx.Err(); ended != nil { // the search was cut short, so nothing is known to be missing
		return jdk{}, "", ended
	}
	apt, aptErr := exec.LookPath("apt-get")
	command := "apt-get install -y " + strings.Join(debianPackages, " ")
	if aptErr != nil || os.Geteuid() != 0 {
		return jdk{}, "", fmt.Errorf("%w; %s", err, installHint(aptErr == nil, command))
	}
	progress(StepJava, "installing: "+command)
	if aptErr := aptInstall(ctx, apt); aptErr != nil {
		return jdk{}, "", fmt.Errorf("%w; installing it failed: %w", err, aptErr)
	}
	return look()
}

func installHint(debian bool, command string) string {
	if debian {
		return "run: sudo " + command
	}
	return "install a JDK 17 and Maven (macOS: brew install openjdk@17 maven) and set JAVA_HOME"
}

func aptInstall(ctx context.Context, apt string) error {
	for _, args := range [][]string{
		{"update", "-qq"},
		append([]string{"install", "-y", "-qq", "--no-install-recommends"}, debianPackages...),
	} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastLines(string(output), 3))
		}
	}
	return nil
}
