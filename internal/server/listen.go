package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// DefaultSocketMode lets the owner and the group of a unix socket connect.
const DefaultSocketMode fs.FileMode = 0o660

// Listener is where a server listens.
type Listener struct {
	// Address is host:port, or unix:///path for a unix socket; empty disables
	// the listener.
	Address string
	// SocketMode is the mode of a unix socket; 0 means DefaultSocketMode.
	SocketMode fs.FileMode
	// TLS enables encryption when it names a certificate.
	TLS TLS
}

// bound is a listener that is bound to its address.
type bound struct {
	*gate
	name  string
	serve func(net.Listener) error
}

func (s *Server) bind(ctx context.Context, name string, l Listener, alpn []string, serve func(net.Listener) error) (bound, error) {
	var config *tls.Config
	if l.TLS.CertFile != "" {
		loaded, err := l.TLS.load(alpn)
		if err != nil {
			return bound{}, err
		}
		i := &listenerTLS{alpn: alpn}
		i.current.Store(loaded)
		s.secured[name] = i
		config = i.config()
	}
	ln, err := listen(ctx, l)
	if err != nil {
		return bound{}, err
	}
	g := newGate(ln, s.cfg.Limits, &s.maxConnections, config, s.metrics.listener(name))
	if name != "admin" {
		g.memory, g.metered = s.memory, name == "grpc"
		g.callBytes = int64(s.cfg.MaxRequestBytes) + streamWindow
	}
	return bound{g, name, serve}, nil
}

func listen(ctx context.Context, l Listener) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(l.Address, "unix://")
	if !unix {
		ln, err := lc.Listen(ctx, "tcp", l.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("the port is taken by another process; stop it or choose another address: %w", err)
		}
		return ln, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	mode := l.SocketMode
	if mode == 0 {
		mode = DefaultSocketMode
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// removeStale removes the socket that a killed process left behind. It keeps a
// socket that somebody answers on, and a file that is no socket.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return errors.New("another process listens on the socket; stop it or choose another path")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("see whether the socket is in use: %w", err)
	}
	return os.Remove(path)
}
