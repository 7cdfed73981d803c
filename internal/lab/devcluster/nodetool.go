package devcluster

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed endpoints.java
var endpointsJava string

// toolLogback keeps Cassandra's tools from mixing their log into their output.
const toolLogback = `<configuration><root level="OFF"/></configuration>
`

// Nodetool runs nodetool on the node at that index of Nodes and returns its output. On failure the
// error has the output too.
func (c *Cluster) Nodetool(ctx context.Context, node int, args ...string) (string, error) {
	nodes := c.Nodes()
	if node < 0 || node >= len(nodes) {
		return "", fmt.Errorf("devcluster: nodetool: there is no node at index %d of %d", node, len(nodes))
	}
	return nodes[node].nodetool(ctx, args...)
}

func (n *Node) nodetool(ctx context.Context, args ...string) (string, error) {
	command := append([]string{"org.apache.cassandra.tools.NodeTool", "-p", strconv.Itoa(n.jmxPort())}, args...)
	output, err := n.cluster.runJava(ctx, nil, command)
	if err != nil {
		return output, fmt.Errorf("nodetool %s: %w", strings.Join(args, " "), err)
	}
	return output, nil
}

// NaturalEndpoints returns the replicas of each key in each of tables (keyspace.table), as
// addresses without port, indexed by table and key, in the order of "nodetool getendpoints". Keys
// are written as for nodetool, with colons between the components of a composite key.
func (c *Cluster) NaturalEndpoints(ctx context.Context, tables, keys []string) ([][][]string, error) {
	what := strings.Join(tables, ", ")
	var asked *Node
	for _, n := range c.ringNodes() {
		if n.running() != nil {
			asked = n
			break
		}
	}
	if asked == nil {
		return nil, fmt.Errorf("devcluster: endpoints of %s: %w", what, ErrNotRunning)
	}
	source := filepath.Join(c.dir, "endpoints.java")
	if err := os.WriteFile(source, []byte(endpointsJava), 0o644); err != nil {
		return nil, fmt.Errorf("devcluster: endpoints: %w", err)
	}
	var input bytes.Buffer
	for _, key := range keys {
		input.WriteString(base64.StdEncoding.EncodeToString([]byte(key)) + "\n")
	}
	output, err := c.runJava(ctx, &input, append([]string{source, strconv.Itoa(asked.jmxPort())}, tables...))
	if err != nil {
		return nil, fmt.Errorf("devcluster: endpoints of %s: %w", what, err)
	}
	answers, err := parseEndpoints(output, len(tables)*len(keys))
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(answers, max(len(keys), 1))), nil
}

// parseEndpoints parses one line of blank-separated address:port for each key.
func parseEndpoints(output string, keys int) ([][]string, error) {
	answers := make([][]string, 0, keys)
	for line := range strings.Lines(output) {
		replicas := []string{}
		for endpoint := range strings.FieldsSeq(line) {
			host, _, err := net.SplitHostPort(endpoint)
			if err != nil {
				return nil, fmt.Errorf("devcluster: endpoints: %w", err)
			}
			replicas = append(replicas, host)
		}
		answers = append(answers, replicas)
	}
	if len(answers) != keys {
		return nil, fmt.Errorf("devcluster: endpoints: %d answers for %d keys", len(answers), keys)
	}
	return answers, nil
}

// runJava runs a main class or a source file on Cassandra's class path and returns its output.
func (c *Cluster) runJava(ctx context.Context, input *bytes.Buffer, command []string) (string, error) {
	if err := c.usable(); err != nil {
		return "", err
	}
	logback := filepath.Join(c.dir, "tool-logback.xml")
	if err := os.WriteFile(logback, []byte(toolLogback), 0o644); err != nil {
		return "", err
	}
	// -Duser.home: nodetool writes its history there.
	args := append(moduleFlags(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+PerfDisableSharedMem", "-Xmx192M",
		"-Dlogback.configurationFile="+logback, "-Duser.home="+c.dir, "-Djava.io.tmpdir="+c.dir, "-cp", c.install.classPath)
	// A starting JVM would take all CPUs from the nodes and from what is tested.
	cmd := exec.CommandContext(ctx, "nice", append(append([]string{"-n", "19", c.install.java}, args...), command...)...)
	cmd.WaitDelay = 5 * time.Second
	if input != nil {
		cmd.Stdin = input
	}
	output, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(output), fmt.Errorf("%w: %s", err, firstLines(string(exit.Stderr)+string(output), 4))
	}
	return string(output), err
}
