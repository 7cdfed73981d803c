package cassandra

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"pgregory.net/rapid"

	"github.com/qosproxy/qosproxy/internal/executor"
)

// hostileText names a node and holds a key, as messages of servers do.
const hostileText = "Read failure at /192.0.2.77:9042 for key KEY-7391946"

// hostile are errors of the driver and of the system whose texts hold what clients
// may not see.
func hostile() *rapid.Generator[error] {
	return rapid.Custom(func(t *rapid.T) error {
		node := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 77), Port: 9042}
		err := rapid.SampledFrom([]error{
			answer{gocql.ErrCodeReadFailure, hostileText}, answer{gocql.ErrCodeInvalid, hostileText}, answer{gocql.ErrCodeServer, hostileText},
			answer{gocql.ErrCodeUnavailable, hostileText}, answer{gocql.ErrCodeOverloaded, hostileText}, answer{gocql.ErrCodeReadTimeout, hostileText},
			&gocql.RequestErrReadFailure{ErrorMap: gocql.ErrorMap{"192.0.2.77": uint16(rapid.IntRange(0, 6).Draw(t, "code"))}},
			&net.OpError{Op: "dial", Net: "tcp", Addr: node, Err: syscall.ECONNREFUSED},
			&net.OpError{Op: "read", Net: "tcp", Source: node, Addr: node, Err: syscall.ECONNRESET},
			gocql.ErrFrameTooBig, gocql.ErrNoConnections, io.EOF, errForeignRow, errors.New(hostileText),
		}).Draw(t, "error")
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "joined") {
				err = errors.Join(errors.New(hostileText), err)
			} else {
				err = fmt.Errorf("%s: %w", hostileText, err)
			}
		}
		if rapid.Bool().Draw(t, "classified") {
			err = &executor.ReadError{Reason: executor.ReasonReadFailure, Err: err}
		}
		return err
	})
}

// What a client reads of a key that failed holds no address and no key, whatever the
// driver said.
func TestNoErrorOfAKeyHoldsAnAddressOrAKey(t *testing.T) {
	causes := 0
	rapid.Check(t, func(t *rapid.T) {
		err := hostile().Draw(t, "cause")
		text := failed(err).Err.Error()
		for _, mark := range []string{"192.0.2.77", "9042", "7391946"} {
			if strings.Contains(text, mark) {
				t.Fatalf("%q holds %q", text, mark)
			}
			if strings.Contains(err.Error(), mark) {
				causes++
			}
		}
	})
	if causes < 20 {
		t.Fatalf("%d causes with such a text are too few to tell", causes)
	}
}
