package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// CheckFiles reports every named file that cannot be read, every token file without a
// valid token, and every unix socket whose folder does not exist: one *Error each, joined.
// It opens the files, so the result is what this process may read.
func (c *Config) CheckFiles() error {
	v := &validator{origin: c.origin}
	for i := range c.Clients {
		if file := c.Clients[i].TokenFile; file != "" {
			_, err := identity.ReadTokens(file)
			v.check(err == nil, fmt.Sprintf("clients[%d].token_file", i), "%v", err)
		}
	}
	for _, f := range c.named() {
		if f.file != "" {
			err := readable(f.file)
			v.check(err == nil, f.path, "%v; name a file that this process may read", err)
		}
	}
	for _, s := range c.sockets() {
		folder := filepath.Dir(s.file)
		info, err := os.Stat(folder)
		v.check(err == nil && info.IsDir(), s.path, "there is no folder %s for the socket; create it or mount it", folder)
	}
	return join(v.found)
}

// namedFile is a file and the key that names it; file is empty when the key names none.
type namedFile struct{ path, file string }

// named returns the files that keys may name, without token files.
func (c *Config) named() []namedFile {
	files := []namedFile{
		{"cassandra.password_file", c.Cassandra.PasswordFile},
		{"cassandra.tls.ca_file", c.Cassandra.TLS.CAFile},
		{"cassandra.tls.cert_file", c.Cassandra.TLS.CertFile},
		{"cassandra.tls.key_file", c.Cassandra.TLS.KeyFile},
	}
	for _, l := range []struct {
		path string
		ServerTLS
	}{{"listen.tls.grpc", c.Listen.TLS.GRPC}, {"listen.tls.http", c.Listen.TLS.HTTP}, {"listen.tls.admin", c.Listen.TLS.Admin}} {
		files = append(files, namedFile{l.path + ".cert_file", l.CertFile}, namedFile{l.path + ".key_file", l.KeyFile},
			namedFile{l.path + ".client_ca_file", l.ClientCAFile})
	}
	return files
}

// Files returns the configuration file and the files that it names, except token files:
// those to check for changes.
func (c *Config) Files() []string {
	var files []string
	for _, f := range append(c.named(), namedFile{file: c.File()}) {
		if f.file != "" && !slices.Contains(files, f.file) {
			files = append(files, f.file)
		}
	}
	return files
}

// DependsOn returns all that CheckFiles looks at: the files of Files, token files, and the folders
// of unix sockets.
func (c *Config) DependsOn() []string {
	files := c.Files()
	for i := range c.Clients {
		if file := c.Clients[i].TokenFile; file != "" {
			files = append(files, file)
		}
	}
	for _, l := range c.sockets() {
		files = append(files, filepath.Dir(l.file))
	}
	return files
}

// sockets returns the unix sockets that listeners name.
func (c *Config) sockets() []namedFile {
	var sockets []namedFile
	for _, l := range []namedFile{{"listen.grpc", c.Listen.GRPC}, {"listen.http", c.Listen.HTTP}, {"listen.admin", c.Listen.Admin}} {
		if socket, ok := strings.CutPrefix(l.file, unixScheme); ok {
			sockets = append(sockets, namedFile{l.path, socket})
		}
	}
	return sockets
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
