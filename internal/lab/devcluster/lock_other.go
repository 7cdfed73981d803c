//go:build !linux

package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const lockName = "qosproxy-devcluster.lock"

// lock is held by the process that runs the cluster and by its watchdog.
type lock struct {
	held *os.File
}

// acquireLock acquires the lock, a file in the temporary folder with the process id. It returns
// ErrBusy if it is held.
func acquireLock(_ context.Context, name string) (*lock, error) {
	path := filepath.Join(os.TempDir(), name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("devcluster: lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(path)
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: process %s has it; stop that process, or wait for it to end", ErrBusy, strings.TrimSpace(string(pid)))
		}
		return nil, fmt.Errorf("devcluster: lock %s: %w", path, err)
	}
	if err := file.Truncate(0); err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("devcluster: lock %s: %w", path, err)
		}
	}
	return &lock{file}, nil
}

// lend calls start with a file that keeps the lock held in a child process that inherits it.
func (l *lock) lend(start func(held *os.File) error) error { return start(l.held) }

func (l *lock) release() error { return l.held.Close() }
