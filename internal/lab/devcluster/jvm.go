package devcluster

import (
	"fmt"
	"path/filepath"
	"runtime"
)

// exports and opens are the packages of the JDK that Cassandra accesses by reflection, as in its
// conf/jvm17-server.options.
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

// vmFlags returns the flags that decide whether one JVM can use a class archive made by another.
// The archive's name has a hash of them.
func vmFlags() []string {
	return append([]string{"-XX:+UseSerialGC"}, moduleFlags()...)
}

// command returns the command line of the node's JVM, the path of java first.
//
// The initial heap is small on purpose: Cassandra locks all the memory it has at start, so a heap
// of full size would cost its pages at once (0.9 GiB a node rather than 0.4) and seconds of page
// faults.
func (n *Node) command(in install) []string {
	args := append([]string{in.java}, vmFlags()...)
	args = append(args, in.archive.flags(filepath.Join(n.dir, "classes.jsa"), n.number == 1)...)
	args = append(args, agentOf(in.classPath, Version)...)
	args = append(args,
		"-Xms128M", fmt.Sprintf("-Xmx%dM", n.cluster.cfg.HeapMB), "-Xss384k", "-XX:MaxDirectMemorySize=256M",
		// With the default, metadata outgrows its limit several times, and each time all threads stop:
		// for 0.25 s with a heap that is in use.
		"-XX:MetaspaceSize=128M",
		// The performance data file would outlive a killed JVM.
		"-XX:+PerfDisableSharedMem", "-XX:+ExitOnOutOfMemoryError",
		// The CPU time of compiler threads must stay attributable, so they must not end.
		"-XX:-UseDynamicNumberOfCompilerThreads",
		"-Djava.io.tmpdir="+n.dir, "-Duser.home="+n.dir,
		"-Dio.netty.tryReflectionSetAccessible=true", "-Djdk.attach.allowAttachSelf=true",
		"-Dlogback.configurationFile="+filepath.Join(n.dir, "logback.xml"),
		"-Dcassandra-foreground=yes",
		"-Dcassandra.config=file://"+filepath.Join(n.dir, "cassandra.yaml"),
		// Named here rather than found on the class path, because a folder there rules out class
		// archives.
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

// ShortLived is the JVM flag of Config.ShortLived: the JVM compiles quickly, but not well. Three
// nodes spent 59 in place of 112 s of CPU time on a boot, twelve changes of the schema, 10,000
// writes and a restart.
const ShortLived = "-XX:TieredStopAtLevel=1"

// quickFlags remove waits that protect production clusters from slow networks. These nodes share a
// machine and start empty.
var quickFlags = []string{
	"-Dcassandra.ring_delay_ms=5000",
	// A node that missed a change of the schema asks for it after this time. The default is a minute,
	// for which every later change would wait.
	"-Dcassandra.migration_delay_ms=500",
	"-Dcassandra.schema_pull_interval_ms=1000",
	"-Dcassandra.skip_wait_for_gossip_to_settle=0",
	"-Dcassandra.superuser_setup_delay_ms=0",
	"-Dcassandra.shutdown_announce_in_ms=0",
	"-Dcassandra.drain_executor_timeout_ms=100",
	"-Dcassandra.skip_paxos_state_rebuild=true",
	"-Dcassandra.test.ignore_sigar=true",
	// Cassandra would otherwise measure this value at every start, in a second of CPU time.
	"-Dcassandra.memtable.row_overhead_size=180",
}

// priorityFlags give the JVM's compiler threads a nice value of 19, so that they run when nobody
// else wants the CPU. The nodes share a few CPUs with each other and with what is tested. Compilers
// run for seconds at a boot, and whenever the ring changes and invalidates compiled code, and would
// hold up both. A production machine has a CPU to spare for them. As soon as one thread has a
// priority, all priorities take effect; those above normal, some of which the JVM sets itself, are
// therefore mapped to normal. The values are those of Linux.
var priorityFlags = []string{
	"-XX:ThreadPriorityPolicy=1", "-XX:CompilerThreadPriority=19",
	"-XX:JavaPriority6_To_OSPriority=0", "-XX:JavaPriority7_To_OSPriority=0", "-XX:JavaPriority8_To_OSPriority=0",
	"-XX:JavaPriority9_To_OSPriority=0", "-XX:JavaPriority10_To_OSPriority=0",
}
