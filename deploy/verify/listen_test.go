package verify

import (
	"bytes"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// configured is what the tests read of a configuration file.
type configured struct {
	Cassandra struct {
		ContactPoints []string `yaml:"contact_points"`
		LocalDC       string   `yaml:"local_dc"`
	}
	Listen   map[string]string
	Shutdown struct{ Delay, Timeout string }
	Tables   []struct{ Name string }
}

func parse(t *testing.T, configuration string) configured {
	t.Helper()
	var c configured
	require.NoError(t, yaml.Unmarshal([]byte(configuration), &c))
	return c
}

// listenersOf returns the addresses of the listeners, by their names.
func listenersOf(t *testing.T, configuration string) map[string]string {
	t.Helper()
	listen := maps.Clone(parse(t, configuration).Listen)
	require.Len(t, listen, 3, "each of the three says where it listens")
	return listen
}

func isSocket(address string) bool { return strings.HasPrefix(address, "unix://") }

// isOpen reports whether the address can be reached from outside of the pod.
func isOpen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !isSocket(address) && net.ParseIP(host).IsUnspecified()
}

func portOf(t *testing.T, address string) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	n, err := strconv.ParseInt(port, 10, 32)
	require.NoError(t, err)
	return int32(n)
}

// decodeStrictly reads an object into a struct that must know all its fields.
func decodeStrictly(t *testing.T, object any, into any) {
	t.Helper()
	data, err := yaml.Marshal(object)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(into))
}

// copyTree copies a folder into another file system.
func copyTree(to filesys.FileSystem, from, root string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return to.WriteFile(filepath.Join(root, relative), data)
	})
}
