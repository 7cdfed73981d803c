package main

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog/diode"

	"github.com/qosproxy/qosproxy/internal/config"
)

const (
	// logRoom is how many messages may wait to be written.
	logRoom = 1024
	// logPatience is how long the end of the process waits until they are written.
	logPatience = time.Second
)

// newLogger returns the logger of the process, whose level can be changed by level
// while it runs, and a function that writes the messages that still wait.
//
// Logging never waits for out. Lookups log, for instance when a host becomes suspect,
// and standard error may block: on a full disk, or on a pipe whose reader is busy. If
// there is no room the oldest messages are dropped, and a later message says so.
func newLogger(cfg *config.Config, level *slog.LevelVar, out io.Writer) (log *slog.Logger, flush func()) {
	level.Set(cfg.Log.Level)
	var dropped atomic.Pointer[slog.Logger]
	// The struct hides a Close method of out, so that closing the writer leaves out
	// open.
	to := diode.NewWriter(struct{ io.Writer }{out}, logRoom, 0, func(missed int) {
		if log := dropped.Load(); log != nil {
			log.Warn("log messages were dropped: what is behind standard error was too slow for them", "messages", missed)
		}
	})
	options := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == config.LogText {
		log = slog.New(slog.NewTextHandler(to, options))
	} else {
		log = slog.New(slog.NewJSONHandler(to, options))
	}
	dropped.Store(log)
	return log, func() {
		written := make(chan struct{})
		go func() {
			defer close(written)
			_ = to.Close()
		}()
		select {
		case <-written:
		case <-time.After(logPatience):
		}
	}
}
