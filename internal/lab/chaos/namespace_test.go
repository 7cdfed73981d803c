//go:build chaos

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// The environment variables that name what was prepared before the suite entered a network
// namespace, where nothing can be downloaded.
const (
	insideVariable = "QOSPROXY_CHAOS_INSIDE"
	binaryVariable = "QOSPROXY_CHAOS_BINARY"
)

var (
	// binary is the path of the proxy under test.
	binary string
	// ownNetwork is whether the suite has a network of its own.
	ownNetwork bool
)

// TestMain runs the suite in a network namespace of its own, so that black holes and losses affect
// nobody else. Without root it runs where it is, and skips network scenarios.
func TestMain(m *testing.M) {
	if what := os.Getenv(abuserVariable); what != "" {
		os.Exit(beAbuser(what))
	}
	flag.Parse()
	binary, ownNetwork = os.Getenv(binaryVariable), os.Getenv(insideVariable) != ""
	// The proxy reads variables with its prefix as settings and refuses those that it does not know.
	_ = os.Unsetenv(binaryVariable)
	_ = os.Unsetenv(insideVariable)
	if ownNetwork {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "chaos: bring up the loopback of the namespace:", err)
			os.Exit(1)
		}
	}
	if binary != "" {
		os.Exit(m.Run())
	}
	code, err := prepareAndRun()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// product is the folder of the tested module. Built there, the proxy has the versions of its own
// go.mod.
const product = "../../.."

// prepareAndRun builds the proxy, downloads Cassandra and nftables, and runs this program again, as
// root in a new network namespace.
func prepareAndRun() (int, error) {
	dir, err := os.MkdirTemp("", "qosproxy-chaos")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	built := filepath.Join(dir, "qosproxy")
	build := exec.Command("go", "build", "-tags", "chaos", "-o", built, "./cmd/qosproxy")
	build.Dir = product
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build the proxy: %w", err)
	}
	if err := devcluster.Prepare(context.Background(), nil); err != nil {
		return 0, err
	}
	again := exec.Command(os.Args[0], os.Args[1:]...)
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.Env = append(os.Environ(), binaryVariable+"="+built)
	if os.Geteuid() == 0 {
		if err := installNftables(); err != nil {
			return 0, err
		}
		again.Env = append(again.Env, insideVariable+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	}
	err = again.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.ExitCode(), nil
	}
	return 0, err
}

// installNftables installs nftables, with which network scenarios drop packets, where it is
// missing.
func installNftables() error {
	if _, err := exec.LookPath("nft"); err == nil {
		return nil
	}
	out, err := exec.Command("sh", "-c", "apt-get update -qq && apt-get install -y -qq --no-install-recommends nftables").CombinedOutput()
	if err != nil {
		return fmt.Errorf("install nftables, which scenarios of the network need: %w: %s", err, out)
	}
	return nil
}

// loopbackUp turns on the loopback device, which is off in a new namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
