package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/qosproxy/qosproxy/internal/command"
)

// proxyName is the file name of the product's binary.
const proxyName = "qosproxy"

// proxyFlag adds --proxy, which names the binary that is demonstrated or measured.
func proxyFlag(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "proxy", "", "the binary qosproxy (default: the one beside this program, otherwise the first in PATH)")
}

// namedProxy returns the path of the binary that a flag names.
func namedProxy(flag, name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", command.Usagef("--%s: %w", flag, err)
	}
	return filepath.Abs(path)
}

// findProxy returns the path of the binary qosproxy: the named file, otherwise the one
// beside this program, otherwise the first in PATH.
func findProxy(named string) (string, error) {
	if named != "" {
		return namedProxy("proxy", named)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), proxyName)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(proxyName)
	if err != nil {
		return "", command.Usagef("there is no %s beside this program or in PATH: make build, or name it with --proxy", proxyName)
	}
	return path, nil
}
