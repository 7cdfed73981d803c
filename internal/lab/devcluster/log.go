package devcluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// outputPath returns the file with the output of the JVM itself.
func (n *Node) outputPath() string { return filepath.Join(n.dir, "output.log") }

// LogTail returns at most that many last lines of the node's log; empty when there is none.
func (n *Node) LogTail(lines int) string {
	text, err := os.ReadFile(n.LogPath())
	if err != nil {
		return ""
	}
	return lastLines(string(text), lines)
}

// logSize returns the size of the log in bytes; 0 when there is none.
func (n *Node) logSize() int64 {
	info, err := os.Stat(n.LogPath())
	if err != nil {
		return 0
	}
	return info.Size()
}

// logSince returns the log from the offset on; nil when it cannot be read.
func (n *Node) logSince(offset int64) []byte {
	file, err := os.Open(n.LogPath())
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil
	}
	// A partial read of a growing log is good enough.
	text, _ := io.ReadAll(file)
	return text
}

// bootError returns an error that says why a node did not start: the errors in its log or, if there
// are none, the output of the JVM.
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
