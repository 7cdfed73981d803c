package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// CheckFiles reports every file that the configuration names and that cannot be
// read, every token file without a token that can be used, and every unix socket whose folder does not exist: one *Error each,
// joined. It opens the files, so it says what this process may read.
func (c *Config) CheckFiles() error {
	v := &validator{origin: c.origin}
	files := []struct{ path, file string }{
		{"cassandra.password_file", c.Cassandra.PasswordFile},
		{"cassandra.tls.ca_file", c.Cassandra.TLS.CAFile},
		{"cassandra.tls.cert_file", c.Cassandra.TLS.CertFile},
		{"cassandra.tls.key_file", c.Cassandra.TLS.KeyFile},
	}
	sockets := []struct{ path, address string }{
		{"listen.grpc", c.Listen.GRPC}, {"listen.http", c.Listen.HTTP}, {"listen.admin", c.Listen.Admin},
	}
	for i, tls := range []ServerTLS{c.Listen.TLS.GRPC, c.Listen.TLS.HTTP, c.Listen.TLS.Admin} {
		path := strings.Replace(sockets[i].path, "listen.", "listen.tls.", 1)
		files = append(files, []struct{ path, file string }{
			{path + ".cert_file", tls.CertFile}, {path + ".key_file", tls.KeyFile}, {path + ".client_ca_file", tls.ClientCAFile},
		}...)
	}
	for i := range c.Clients {
		if file := c.Clients[i].TokenFile; file != "" {
			_, err := identity.ReadTokens(file)
			v.check(err == nil, fmt.Sprintf("clients[%d].token_file", i), "%v", err)
		}
	}
	for _, f := range files {
		if f.file != "" {
			err := readable(f.file)
			v.check(err == nil, f.path, "%v; name a file that this process may read", err)
		}
	}
	for _, s := range sockets {
		if socket, ok := strings.CutPrefix(s.address, unixScheme); ok {
			info, err := os.Stat(filepath.Dir(socket))
			v.check(err == nil && info.IsDir(), s.path, "there is no folder %s for the socket; create it or mount it", filepath.Dir(socket))
		}
	}
	return join(v.found)
}

// readable returns why a file cannot be read.
func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: name, Err: errFolder}
	}
	return err
}

var errFolder = errors.New("is a folder")
