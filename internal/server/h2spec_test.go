package server

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deviations are the cases of h2spec that a transport may fail, with the reason. A
// case that passes must be removed, unless its reason starts with "sometimes".
type deviations map[string]string

var (
	// ofNetHTTP are those of the HTTP/2 server of net/http.
	ofNetHTTP = deviations{
		"http2/5.1/9":     "sometimes: the answer had been sent when the reset came",
		"http2/5.1/12":    "sometimes: the end of the connection, a second after GOAWAY, comes too late for the case",
		"http2/6.5.3/1":   "a SETTINGS frame with a setting twice is refused, so that nobody fills frames with them",
		"http2/6.9.1/3":   "sometimes: the stream had been reset with NO_ERROR after its answer, which needs no body",
		"http2/8.1.2.2/1": "headers of the connection are ignored; no handler sees them",
		"http2/8.1.2.2/2": "TE is ignored; no handler reads it",
		"http2/8.1.2.6/1": "sometimes: the answer needs no body, and is sent before the body has come",
		"http2/8.1.2.6/2": "sometimes: the answer needs no body, and is sent before the body has come",
	}
	// ofGRPC are those of the HTTP/2 server of grpc-go.
	ofGRPC = deviations{
		"generic/2/2":     "the case waits for DATA; a refused call is answered with headers alone",
		"generic/2/3":     "the case waits for DATA; a refused call is answered with headers alone",
		"http2/5.1/1":     "frames on streams that are not open are ignored",
		"http2/5.1/2":     "frames on streams that are not open are ignored",
		"http2/5.1/3":     "frames on streams that are not open are ignored",
		"http2/5.1/5":     "frames on streams that are not open are ignored",
		"http2/5.1/8":     "frames on streams that are not open are ignored",
		"http2/5.1/9":     "sometimes: the answer had been sent when the reset came",
		"http2/5.1/11":    "frames on streams that are not open are ignored",
		"http2/5.1/12":    "sometimes: the end of the connection comes too late for the case",
		"http2/5.1.2/1":   "a call that is refused at its headers ends at once and counts no more",
		"http2/5.3.1/1":   "priorities are ignored",
		"http2/5.3.1/2":   "priorities are ignored",
		"http2/5.4.1/2":   "the connection is closed without GOAWAY",
		"http2/6.1/2":     "frames on streams that are not open are ignored",
		"http2/6.4/2":     "frames on streams that are not open are ignored",
		"http2/6.5.2/1":   "SETTINGS_ENABLE_PUSH is ignored: nothing is pushed",
		"http2/6.5.2/3":   "SETTINGS_MAX_FRAME_SIZE is ignored: frames of 16 KiB are sent",
		"http2/6.5.2/4":   "SETTINGS_MAX_FRAME_SIZE is ignored: frames of 16 KiB are sent",
		"http2/6.9.1/2":   "a window that overflows is the peer's own loss",
		"http2/6.9.1/3":   "a window that overflows is the peer's own loss",
		"http2/8.1.2.2/2": "TE is ignored",
		"http2/8.1.2.3/1": "the call is answered as one of an unknown method",
		"http2/8.1.2.3/2": "the call is answered with 400 or 405",
		"http2/8.1.2.3/3": "the scheme is ignored",
		"http2/8.1.2.3/4": "the call is answered as one of an unknown method",
		"http2/8.1.2.6/1": "messages have their own lengths; content-length is ignored",
		"http2/8.1.2.6/2": "messages have their own lengths; content-length is ignored",
		"http2/8.2/1":     "PUSH_PROMISE is ignored",
	}
)

// differences returns the differences between the failed cases and the allowed ones.
func (d deviations) differences(failed map[string]string) (out []string) {
	for id, why := range failed {
		if _, ok := d[id]; !ok {
			out = append(out, fmt.Sprintf("%s fails and is not listed: %s", id, why))
		}
	}
	for id, why := range d {
		if _, ok := failed[id]; !ok && !strings.HasPrefix(why, "sometimes") {
			out = append(out, id+" is listed and does not fail: take it out")
		}
	}
	slices.Sort(out)
	return out
}

// TestHTTP2 checks both listeners for clients against the HTTP/2 standard with
// h2spec, the program named by QOSPROXY_H2SPEC. make h2spec builds it.
func TestHTTP2(t *testing.T) {
	program := os.Getenv("QOSPROXY_H2SPEC")
	if program == "" {
		t.Skip("QOSPROXY_H2SPEC names no program: run make h2spec")
	}
	dir := t.TempDir()
	issue(t, dir, "proxy.test")
	// Only the gRPC listener accepts HTTP/2 without TLS.
	s := start(t, Config{GRPC: Listener{Address: anyPort}, HTTP: Listener{Address: anyPort, TLS: filesIn(dir)}}, Deps{Lookup: &fake{}})
	for listener, c := range map[string]struct {
		args []string
		// allowed are the lists of the transports that may serve the listener. One of
		// them must match as a whole.
		allowed []deviations
	}{
		"grpc": {nil, []deviations{ofNetHTTP, ofGRPC}},
		"http": {[]string{"-tls", "-path=/v1/tables"}, []deviations{ofNetHTTP}},
	} {
		t.Run(listener, func(t *testing.T) {
			t.Parallel()
			_, port, err := net.SplitHostPort(s.Addr(listener).String())
			require.NoError(t, err)
			var out, problems bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, append([]string{"-port=" + port}, c.args...)...)
			cmd.Stdout, cmd.Stderr = &out, &problems
			require.NoError(t, cmd.Run(), "%s%s", out.String(), problems.String())
			passed, failed := casesOf(out.String())
			t.Logf("%d cases passed, %d failed", len(passed), len(failed))
			assert.Greater(t, len(passed)+len(failed), 140, "cases that were run")
			var best []string
			for i, allowed := range c.allowed {
				if found := allowed.differences(failed); i == 0 || len(found) < len(best) {
					best = found
				}
			}
			assert.Empty(t, best, "%s", strings.Join(best, "\n"))
		})
	}
}

// casesOf returns the ids of the cases that passed, and of those that failed with the
// expected and the actual result.
func casesOf(output string) (passed, failed map[string]string) {
	passed, failed = map[string]string{}, map[string]string{}
	for line := range strings.Lines(output) {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		id, description, _ := strings.Cut(rest, " ")
		switch verdict {
		case "passed":
			passed[id] = description
		case "failed":
			failed[id] = description
		}
	}
	return passed, failed
}

func TestTheListOfDeviationsIsExact(t *testing.T) {
	list := deviations{"a/1/1": "for a reason", "a/1/2": "sometimes: it depends"}
	_, failed := casesOf("passed\tb/1/1 something\nfailed\ta/1/1 something else\tit broke\nskipped\tb/1/3 x\n")
	assert.Equal(t, []string{"a/1/1"}, slices.Collect(maps.Keys(failed)))
	assert.Empty(t, list.differences(failed))
	assert.Equal(t, []string{"a/1/1 is listed and does not fail: take it out"}, list.differences(nil))
	assert.Equal(t, []string{"b/2/2 fails and is not listed: why"}, list.differences(map[string]string{"a/1/1": "", "b/2/2": "why"}))
}
