package devcluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// outputPath is the file with what the JVM itself says.
func (n *Node) outputPath() string { return filepath.Join(n.dir, "output.log") }

// LogTail returns the last lines of the node's log, at most that many; empty when
// there is none.
func (n *Node) LogTail(lines int) string {
	text, err := os.ReadFile(n.LogPath())
	if err != nil {
		return ""
	}
	return lastLines(string(text), lines)
}

// logSize returns where the log ends; 0 when there is none.
func (n *Node) logSize() int64 {
	info, err := os.Stat(n.LogPath())
	if err != nil {
		return 0
	}
	return info.Size()
}

// logSince returns what has been logged since the offset.
func (n *Node) logSince(offset int64) []byte {
	file, err := os.Open(n.LogPath())
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil
	}
	// What could be read of a growing log is all that is wanted.
	text, _ := io.ReadAll(file)
	return text
}

// bootError describes why a node did not start: the errors of its log, or what the
// JVM said if it did not come as far as that.
func (n *Node) bootError(p *process, cause error) error {
	var lines []string
	for line := range bytes.Lines(n.logSince(p.logStart)) {
		if bytes.HasPrefix(line, []byte("ERROR")) || bytes.HasPrefix(line, []byte("Caused by")) || bytes.Contains(line, []byte("Exception")) {
			lines = append(lines, string(line))
		}
	}
	text := lastLines(strings.Join(lines, ""), 8)
	if text == "" {
		output, _ := os.ReadFile(n.outputPath())
		text = lastLines(string(output), 8)
	}
	if text == "" {
		text = "(nothing was logged)"
	}
	return fmt.Errorf("node %d: %w\n%s\nits log is %s", n.number, cause, text, n.LogPath())
}
