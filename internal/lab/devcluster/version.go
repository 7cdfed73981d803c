package devcluster

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// VersionVariable is the environment variable that selects another version of Apache Cassandra for
// the nodes, such as 4.1.10. It lacks the prefix of the proxy's variables, because a proxy rejects
// those that it does not know.
const VersionVariable = "DEVCLUSTER_CASSANDRA"

// Version is the version of Apache Cassandra that the nodes run.
var Version = cmp.Or(os.Getenv(VersionVariable), "5.0.9")

// AtLeast reports whether the nodes run this version of Apache Cassandra or a later one. 4.1
// includes all of its releases and alphas.
func AtLeast(major, minor int) bool { return isAtLeast(Version, major, minor) }

func isAtLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	second, _, _ = strings.Cut(second, "-")
	// What is not a number counts as 0. Cassandra's own jar is not found for such a version anyway.
	a, _ := strconv.Atoi(first)
	b, _ := strconv.Atoi(second)
	return a > major || a == major && b >= minor
}

// agentOf returns the flags that let a version before 5.0 run on Java 17. There jamm, the jar that
// measures objects, cannot see into lambdas unless it runs as an agent. Later versions need no
// agent, and a JVM with an agent makes no class archive.
func agentOf(classPath, version string) []string {
	if isAtLeast(version, 5, 0) {
		return nil
	}
	for _, jar := range filepath.SplitList(classPath) {
		if strings.HasPrefix(filepath.Base(jar), "jamm-") {
			flags := []string{"-javaagent:" + jar}
			for _, name := range measured {
				flags = append(flags, "--add-opens="+name+"=ALL-UNNAMED")
			}
			return flags
		}
	}
	return nil
}

// measured are the packages of the JDK whose objects jamm inspects, in addition to opens.
var measured = []string{
	"java.base/java.lang.invoke", "java.base/java.nio.charset", "java.base/java.security", "java.base/java.text",
	"java.base/java.time", "java.base/java.util.concurrent.locks", "java.base/java.util.regex", "java.base/sun.nio.cs",
	"java.base/sun.security.provider", "java.base/sun.util.calendar", "java.base/sun.net.util",
}

// ofVersion converts settings of cassandra.yaml from the form of 5.0 to that of another version.
// Before 4.1 the unit is part of the name.
func ofVersion(settings map[string]any, version string) map[string]any {
	settings = maps.Clone(settings)
	if !isAtLeast(version, 5, 0) {
		delete(settings, "storage_compatibility_mode")
	}
	if isAtLeast(version, 4, 1) {
		return settings
	}
	for name, value := range settings {
		text, ok := value.(string)
		if !ok {
			continue
		}
		if mib, found := strings.CutSuffix(text, "MiB"); found {
			if n, err := strconv.Atoi(mib); err == nil {
				delete(settings, name)
				settings[name+"_in_mb"] = n
			}
		} else if d, err := time.ParseDuration(text); err == nil {
			delete(settings, name)
			settings[name+"_in_ms"] = d.Milliseconds()
		}
	}
	return settings
}
