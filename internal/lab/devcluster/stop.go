package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Stop kills all nodes and removes everything that the cluster has created. It may be called
// several times and concurrently; all calls return the same error.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		c.mu.Lock()
		c.stopped = true
		nodes := slices.Clone(c.nodes)
		c.mu.Unlock()
		errs := []error{c.keepArchive(nodes)}
		errs = append(errs, disposeAll(nodes)...)
		errs = append(errs, os.RemoveAll(c.dir), c.watchdog.dismiss(), c.lock.release())
		if err := errors.Join(errs...); err != nil {
			c.stopErr = fmt.Errorf("devcluster: stop: %w", err)
		}
	})
	return c.stopErr
}

// disposeAll kills the nodes. An orderly shutdown would waste seconds, since their data is removed.
func disposeAll(nodes []*Node) []error {
	errs := make([]error, len(nodes))
	var running sync.WaitGroup
	for i, n := range nodes {
		running.Go(func() { errs[i] = n.dispose() })
	}
	running.Wait()
	return errs
}

// SaveArchive makes the first node write the class archive, by a restart, which halves the time of
// all later starts. It does nothing if the machine has the archive already or cannot make one.
func (c *Cluster) SaveArchive(ctx context.Context) error {
	nodes := c.Nodes()
	if !c.makesArchive(nodes) {
		return nil
	}
	if err := c.keepArchive(nodes); err != nil {
		return err
	}
	return nodes[0].Start(ctx)
}

// keepArchive stops the first node in good order if it is the one to write the class archive when
// it exits.
func (c *Cluster) keepArchive(nodes []*Node) error {
	if !c.makesArchive(nodes) {
		return nil
	}
	c.tell(StepArchive, 1, "saving the class archive that makes later boots quicker (once)")
	return nodes[0].Stop()
}

// makesArchive reports whether the first of these nodes will write the class archive when it exits.
func (c *Cluster) makesArchive(nodes []*Node) bool {
	archive := c.install.archive
	return archive.path != "" && !archive.exists() && len(nodes) > 0 && nodes[0].number == 1 && nodes[0].HostID() != "" && nodes[0].PID() != 0
}

// saveArchive moves the class archive that the node has written at its exit into the cache, if
// there is none yet. A failure is only logged, because it costs no more than slower boots.
func (n *Node) saveArchive() {
	archive := n.cluster.install.archive
	if n.number != 1 || archive.path == "" || archive.exists() {
		return
	}
	if err := archive.keep(filepath.Join(n.dir, "classes.jsa")); err != nil {
		n.cluster.cfg.Logger.Warn("no class archive kept, boots stay slow", "error", err)
	}
}

// keepLogs copies the logs of a failed boot to a folder that Stop does not remove, and returns the
// error with their new paths.
func (c *Cluster) keepLogs(cause error) error {
	kept, err := os.MkdirTemp("", "qosproxy-devcluster-logs-")
	if err != nil {
		return cause
	}
	moved := 0
	for _, n := range c.nodes {
		for _, path := range []string{n.LogPath(), n.outputPath()} {
			target := filepath.Join(kept, n.name()+"-"+filepath.Base(path))
			if text, err := os.ReadFile(path); err == nil && os.WriteFile(target, text, 0o644) == nil {
				moved++
			}
		}
	}
	if moved == 0 {
		_ = os.Remove(kept)
		return cause
	}
	return &bootError{cause: cause, from: c.dir + string(filepath.Separator), kept: kept + string(filepath.Separator)}
}

// bootError is an error whose text has the new paths of copied logs.
type bootError struct {
	cause      error
	from, kept string
}

func (e *bootError) Error() string {
	text := e.cause.Error()
	// …/nodeN/system.log has become …/nodeN-system.log.
	for _, name := range []string{"system.log", "output.log"} {
		text = strings.ReplaceAll(text, string(filepath.Separator)+name, "-"+name)
	}
	return strings.ReplaceAll(text, e.from, e.kept)
}

func (e *bootError) Unwrap() error { return e.cause }
