//go:build register

package register

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// insideVariable is set when the check has its own network. The proxy would refuse a variable with
// its prefix.
const insideVariable = "REGISTER_INSIDE"

// TestMain runs the check, as root, in a network namespace of its own, so that a partition affects
// nobody else. Without root there is no partition.
func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case *binary == "" || os.Geteuid() != 0:
		os.Exit(m.Run())
	case os.Getenv(insideVariable) != "":
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "bring up the loopback of the namespace: %v: %s\n", err, out)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	err := devcluster.Prepare(context.Background(), nil) // a new namespace has no network for downloads
	if err == nil {
		again := exec.Command(os.Args[0], os.Args[1:]...)
		again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
		again.Env = append(os.Environ(), insideVariable+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		err = again.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// partition drops what other nodes send to n, and so also the answers to what n asks, until heal is
// called. Clients still reach n.
func partition(n *devcluster.Node) (heal func() error, err error) {
	const none = "table ip register {}\ndelete table ip register\n"
	filter := func(script string) error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	}
	err = filter(none + "table ip register {\nchain faults { type filter hook output priority 0;\nip daddr " + n.IP() + " tcp dport 7000 drop\n}\n}\n")
	return func() error { return filter(none) }, err
}
