package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/config"
)

// stuck is a writer that blocks until it is released.
type stuck struct {
	release chan struct{}
	mu      sync.Mutex
	taken   bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken.Write(p)
}

func TestNobodyWaitsForTheLog(t *testing.T) {
	out := &stuck{release: make(chan struct{})}
	var level slog.LevelVar
	log, flush := newLogger(&config.Config{}, &level, out)
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for i := range 3 * logRoom {
			log.Info("a host is slow", "i", i)
		}
	}()
	select {
	case <-logged:
	case <-time.After(30 * time.Second):
		require.Fail(t, "who logs waits for what is behind the log")
	}
	flush() // gives up, too
	close(out.release)
	require.Eventually(t, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return bytes.Contains(out.taken.Bytes(), []byte(`"i":3071}`)) && bytes.Contains(out.taken.Bytes(), []byte("log messages were dropped"))
	}, 30*time.Second, time.Millisecond, "the newest are kept, and of the others is told that they were")
}

func TestTheLastMessageIsWritten(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	var level slog.LevelVar
	log, flush := newLogger(&config.Config{}, &level, write)
	log.Info("done", "attempt", 1)
	flush()
	_, err = write.WriteString("{}\n")
	require.NoError(t, err, "it is not closed")
	require.NoError(t, write.Close())
	text, err := io.ReadAll(read)
	require.NoError(t, err)
	var first struct {
		Msg     string
		Attempt int
	}
	require.NoError(t, json.NewDecoder(bytes.NewReader(text)).Decode(&first))
	assert.Equal(t, "done", first.Msg)
	assert.Equal(t, 1, first.Attempt)
}
