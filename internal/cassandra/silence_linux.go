package cassandra

import (
	"syscall"
	"time"
)

// silenceLimit is how long sent bytes may stay unacknowledged by the peer's
// kernel before the connection is given up. The kernel acknowledges even for a
// frozen process, so this ends only connections into the void, which TCP itself
// would keep for a quarter of an hour.
const silenceLimit = 10 * time.Second

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall lacks.
const tcpUserTimeout = 0x12

func giveUpOnSilence(_, _ string, c syscall.RawConn) error {
	var optErr error
	err := c.Control(func(fd uintptr) {
		optErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silenceLimit.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return optErr
}
