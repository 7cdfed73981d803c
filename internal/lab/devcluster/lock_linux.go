package devcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// lockName is an abstract unix socket. Like the ports of a cluster it belongs to the network
// namespace, and the kernel frees it when its last holder dies.
const lockName = "@qosproxy-devcluster"

// lock is held by the process that runs the cluster and by its watchdog.
type lock struct {
	listener *net.UnixListener
}

// acquireLock acquires the lock, or returns ErrBusy if a running process has it. If that process
// has ended, its watchdog is still cleaning up, and acquireLock waits until it is done or ctx ends.
func acquireLock(ctx context.Context, name string) (*lock, error) {
	address := &net.UnixAddr{Name: name, Net: "unix"}
	for {
		listener, err := net.ListenUnix("unix", address)
		if err == nil {
			return &lock{listener}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("devcluster: lock %s: %w", name, err)
		}
		if pid := lockHolder(address); pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH {
			return nil, fmt.Errorf("%w: process %d has it; stop that process, or wait for it to end", ErrBusy, pid)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: its process is gone but its nodes are still being stopped: %w", ErrBusy, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answer accepts connections, from which a process that wants the lock learns the holder's process
// id. It returns when the listener is closed.
func answer(listener *net.UnixListener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// lockHolder returns the id of the process that acquired the lock, 0 if unknown.
func lockHolder(address *net.UnixAddr) int {
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// lend calls start with a file that keeps the lock held in a child process that inherits it. It
// must be called once.
func (l *lock) lend(start func(held *os.File) error) error {
	file, err := l.listener.File()
	if err != nil {
		return err
	}
	err = start(file)
	// Giving the file to a child takes it out of non-blocking mode, and with it the listener, whose
	// Accept could then never be ended. Restore the mode before anybody accepts.
	err = errors.Join(err, syscall.SetNonblock(int(file.Fd()), true), file.Close())
	go answer(l.listener)
	return err
}

func (l *lock) release() error { return l.listener.Close() }
