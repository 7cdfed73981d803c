//go:build linux

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/qosproxy/qosproxy/internal/terminal"
)

// openTerminal returns both ends of a new pseudo-terminal of the given size.
func openTerminal(t *testing.T, width, height uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	raw, err := user.SyscallConn()
	require.NoError(t, err)
	number := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
		require.NoError(t, unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}))
	}))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return user, program
}

// TestTopOnATerminal runs top as a user does: top draws, goes on when the proxy is
// gone, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	for name, key := range map[string]string{"q": "q", "Ctrl-C": "\x03"} {
		t.Run(name, func(t *testing.T) {
			site := httptest.NewServer(admin(t))
			defer site.Close()
			user, program := openTerminal(t, 90, 20)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			require.NoError(t, err)
			cmd := exec.Command(os.Args[0], "top", "--interval", "200ms", "--admin", site.URL)
			cmd.Env = append(os.Environ(), asCommand+"=1", "TERM=xterm")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })

			var mu sync.Mutex
			var out strings.Builder
			go func() {
				buf := make([]byte, 64<<10)
				for {
					n, err := user.Read(buf)
					mu.Lock()
					out.Write(buf[:n])
					mu.Unlock()
					if err != nil {
						return
					}
				}
			}()
			shows := func(part string) {
				t.Helper()
				require.Eventually(t, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return strings.Contains(out.String(), part)
				}, time.Minute, 10*time.Millisecond, part)
			}
			shows("1000 lookups/s")
			shows("more lines; make the window higher")
			site.Close()
			shows("no proxy answers at " + site.URL)
			shows("What follows is of")
			_, err = user.WriteString(key)
			require.NoError(t, err)
			assert.NoError(t, cmd.Wait())
			shows(terminal.LeaveScreen)
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			require.NoError(t, err)
			assert.Equal(t, before, after, "the terminal is as it was")
			mu.Lock()
			defer mu.Unlock()
			assert.NotContains(t, out.String(), "\x1b[2J\x1b]0", "a name does not steer the terminal")
			assert.NoError(t, program.Close())
		})
	}
}
