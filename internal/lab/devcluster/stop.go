package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Stop ends all nodes and removes everything they have left. It may be called
// more than once, and at once by several; all get the same answer.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		c.mu.Lock()
		c.stopped = true
		nodes := c.nodes
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

// disposeAll kills the nodes: their data is removed, so an orderly end would be
// seconds for nothing.
func disposeAll(nodes []*Node) []error {
	errs := make([]error, len(nodes))
	var running sync.WaitGroup
	for i, n := range nodes {
		running.Go(func() { errs[i] = n.dispose() })
	}
	running.Wait()
	return errs
}

// SaveArchive stops the first node and starts it again if it is to write the class archive when it
// exits, which halves what all later starts take. On a machine that has the archive it does
// nothing.
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

// keepArchive stops the first node in an orderly way if it is to write the class
// archive when it exits.
func (c *Cluster) keepArchive(nodes []*Node) error {
	if !c.makesArchive(nodes) {
		return nil
	}
	c.tell(StepArchive, 1, "saving the class archive that makes later boots quicker (once)")
	return nodes[0].Stop()
}

// makesArchive reports whether the first of some nodes writes the class archive when it exits.
func (c *Cluster) makesArchive(nodes []*Node) bool {
	archive := c.install.archive
	return archive.path != "" && !archive.exists() && len(nodes) > 0 && nodes[0].number == 1 && nodes[0].HostID() != "" && nodes[0].PID() != 0
}

// saveArchive keeps the class archive that the node has written when it exited, if there is none
// yet. Without one later boots are only slower, so what goes wrong here is logged and no more.
func (n *Node) saveArchive() {
	archive := n.cluster.install.archive
	if n.number != 1 || archive.path == "" || archive.exists() {
		return
	}
	if err := archive.keep(filepath.Join(n.dir, "classes.jsa")); err != nil {
		n.cluster.cfg.Logger.Warn("no class archive kept, boots stay slow", "error", err)
	}
}

// keepLogs moves the logs of a failed boot to a folder that stays, and has the
// error name that instead of the one which Stop removes.
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

// bootError is an error whose text names logs where they have been moved to.
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
