package devcluster

import (
	"fmt"
	"path/filepath"
	"runtime"
)

// exports and opens are the packages of the JDK that Cassandra reaches into; the
// list is that of its conf/jvm17-server.options.
var exports = []string{
	"java.base/java.lang.ref", "java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
	"java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server",
	"java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql", "jdk.unsupported/sun.misc",
}

var opens = []string{
	"java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect",
	"java.base/java.math", "java.base/java.net", "java.base/java.nio", "java.base/java.util",
	"java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.loader",
	"java.base/jdk.internal.math", "java.base/jdk.internal.module", "java.base/jdk.internal.ref",
	"java.base/jdk.internal.reflect", "java.base/jdk.internal.util.jar", "java.base/sun.nio.ch",
	"jdk.management/com.sun.management.internal",
}

func moduleFlags() []string {
	flags := make([]string, 0, len(exports)+len(opens))
	for _, name := range exports {
		flags = append(flags, "--add-exports="+name+"=ALL-UNNAMED")
	}
	for _, name := range opens {
		flags = append(flags, "--add-opens="+name+"=ALL-UNNAMED")
	}
	return flags
}

// vmFlags are the flags that decide whether a class archive made by one JVM can
// be used by another; the archive's name carries a hash of them.
func vmFlags() []string {
	return append([]string{"-XX:+UseSerialGC"}, moduleFlags()...)
}

// command returns the command line of the node's JVM, java's path first.
//
// The initial heap is small on purpose: Cassandra locks all the memory it has
// at start, so a heap given in full costs its pages at once (0.9 GiB a node
// rather than 0.4) and seconds of page faults.
func (n *Node) command(in install) []string {
	args := append([]string{in.java}, vmFlags()...)
	args = append(args, in.archive.flags(filepath.Join(n.dir, "classes.jsa"), n.number == 1)...)
	args = append(args, agentOf(in.classPath, Version)...)
	args = append(args,
		"-Xms128M", fmt.Sprintf("-Xmx%dM", n.cluster.cfg.HeapMB), "-Xss384k", "-XX:MaxDirectMemorySize=256M",
		// Each time metadata outgrows what is usual at first all threads stop: for 0.25 s with a
		// heap that is in use.
		"-XX:MetaspaceSize=128M",
		// The performance data file would outlive a killed JVM.
		"-XX:+PerfDisableSharedMem", "-XX:+ExitOnOutOfMemoryError",
		// The time of a compiler thread that has ended could no longer be told apart.
		"-XX:-UseDynamicNumberOfCompilerThreads",
		"-Djava.io.tmpdir="+n.dir, "-Duser.home="+n.dir,
		"-Dio.netty.tryReflectionSetAccessible=true", "-Djdk.attach.allowAttachSelf=true",
		"-Dlogback.configurationFile="+filepath.Join(n.dir, "logback.xml"),
		"-Dcassandra-foreground=yes",
		"-Dcassandra.config=file://"+filepath.Join(n.dir, "cassandra.yaml"),
		// Named here, not found on the class path: a folder there forbids class archives.
		"-Dcassandra-rackdc.properties=file://"+filepath.Join(n.dir, "cassandra-rackdc.properties"),
		"-Dcassandra.triggers_dir="+filepath.Join(n.dir, "data", "triggers"),
		"-Dcassandra.storagedir="+filepath.Join(n.dir, "data"),
		fmt.Sprintf("-Dcassandra.jmx.local.port=%d", n.jmxPort()),
		fmt.Sprintf("-Dcassandra.join_ring=%t", !n.cfg.NoJoin),
	)
	args = append(args, quickFlags...)
	if runtime.GOOS == "linux" {
		args = append(args, priorityFlags...)
	}
	if n.cluster.cfg.ShortLived {
		args = append(args, ShortLived)
	}
	args = append(args, n.cfg.JVMArgs...)
	return append(args, "-cp", in.classPath, "org.apache.cassandra.service.CassandraDaemon")
}

// ShortLived is the flag of Config.ShortLived: the JVM compiles quickly and not well.
// Three nodes spent 59 in place of 112 s of CPU time on a boot, twelve changes of the
// schema, 10,000 writes and a restart.
const ShortLived = "-XX:TieredStopAtLevel=1"

// quickFlags take away waits that protect production clusters from slow networks.
// The nodes of this one share a machine and start empty.
var quickFlags = []string{
	"-Dcassandra.ring_delay_ms=5000",
	// A node that missed a change of the schema asks for it after this, and not
	// after a minute, for which every later change would wait.
	"-Dcassandra.migration_delay_ms=500",
	"-Dcassandra.schema_pull_interval_ms=1000",
	"-Dcassandra.skip_wait_for_gossip_to_settle=0",
	"-Dcassandra.superuser_setup_delay_ms=0",
	"-Dcassandra.shutdown_announce_in_ms=0",
	"-Dcassandra.drain_executor_timeout_ms=100",
	"-Dcassandra.skip_paxos_state_rebuild=true",
	"-Dcassandra.test.ignore_sigar=true",
	// What Cassandra otherwise measures in a second of CPU time at every start.
	"-Dcassandra.memtable.row_overhead_size=180",
}

// priorityFlags have the JVM compile when nobody else wants the CPU: its compiler
// threads get a nice value of 19. The nodes share a few CPUs with each other and with
// what is tested, which compiles for seconds at a time would hold up, at a boot and
// whenever the ring changes and compiled code with it becomes invalid; a machine of its
// own has a CPU to spare for them. Priorities are used as soon as one thread has its
// own, so those above the normal one, some of which the JVM gives itself, are made
// equal to it. The values are those of Linux.
var priorityFlags = []string{
	"-XX:ThreadPriorityPolicy=1", "-XX:CompilerThreadPriority=19",
	"-XX:JavaPriority6_To_OSPriority=0", "-XX:JavaPriority7_To_OSPriority=0", "-XX:JavaPriority8_To_OSPriority=0",
	"-XX:JavaPriority9_To_OSPriority=0", "-XX:JavaPriority10_To_OSPriority=0",
}
