package devcluster

import (
	"strings"
	"sync"
	"time"
)

// lastLines returns the last n lines of text that are not blank.
func lastLines(text string, n int) string {
	lines := solidLines(text)
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// firstLines returns the first n lines of text that are not blank.
func firstLines(text string, n int) string {
	lines := solidLines(text)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

func solidLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// every calls f once per interval until stop is called. stop waits for a running call of f.
func every(interval time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(interval):
				f()
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}
