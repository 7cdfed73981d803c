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
	// logRoom is how many messages wait to be written at most.
	logRoom = 1024
	// logPatience is how long the end of the process waits for the last of them.
	logPatience = time.Second
)

// newLogger returns the logger of the process, whose level changes it while running,
// and a function that writes what still waits.
//
// Nobody who logs waits for out. Lookups do log, for instance when a host becomes
// suspect, and what is behind standard error may block: a full disk, a pipe whose
// reader is busy. When there is no room the oldest messages are dropped, which
// a later one tells.
func newLogger(cfg *config.Config, level *slog.LevelVar, out io.Writer) (log *slog.Logger, flush func()) {
	level.Set(cfg.Log.Level)
	var dropped atomic.Pointer[slog.Logger]
	// Without a Close method, so that closing the writer leaves out open.
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
