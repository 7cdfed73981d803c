//go:build unix

package admin

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium, driven by the DevTools protocol over a pipe. The few
// commands that these tests need are a page of code; a library for the whole protocol
// would be the largest dependency of this module.
type browser struct {
	t       *testing.T
	to      *os.File
	session string

	mu      sync.Mutex
	id      int
	replies map[int]chan reply
	// console is what the page wrote to its console, including violations of its
	// policy.
	console []string
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// startBrowser starts Chromium, or skips the test if it is not installed. With
// REQUIRE_BROWSER set, as in CI, the test fails instead.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("REQUIRE_BROWSER") != "" {
			t.Fatal("REQUIRE_BROWSER is set and there is no chromium: apt-get install chromium")
		}
		t.Skip("no chromium, so the status page is not looked at: apt-get install chromium")
	}
	read, to, err := os.Pipe()
	require.NoError(t, err)
	from, write, err := os.Pipe()
	require.NoError(t, err)
	profile, err := os.MkdirTemp("", "qosproxy-browser-") //nolint:usetesting // Chromium may still write to it when the test ends.
	require.NoError(t, err)
	cmd := exec.Command(path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--no-proxy-server", "--user-data-dir="+profile)
	cmd.ExtraFiles = []*os.File{read, write} // file descriptors 3 and 4 of Chromium
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	_ = read.Close()
	_ = write.Close()
	b := &browser{t: t, to: to, replies: map[int]chan reply{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.listen(from)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = to.Close()
		_ = from.Close() // a helper process outside the group may hold the other end
		<-ended
		_ = os.RemoveAll(profile)
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// listen passes answers to the calls that wait for them. Messages end with a zero byte.
func (b *browser) listen(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		message, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		message = bytes.TrimSuffix(message, []byte{0})
		var m struct {
			ID     int
			Method string
			reply
		}
		if json.Unmarshal(message, &m) != nil {
			continue
		}
		b.mu.Lock()
		if waiting, ok := b.replies[m.ID]; ok {
			delete(b.replies, m.ID)
			waiting <- m.reply
		} else if m.Method == "Runtime.consoleAPICalled" || m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" {
			b.console = append(b.console, string(message))
		}
		b.mu.Unlock()
	}
}

// browserPatience bounds one command; the machine may be busy.
const browserPatience = 2 * time.Minute

func (b *browser) call(method string, params map[string]any, into any) {
	b.t.Helper()
	waiting := make(chan reply, 1)
	b.mu.Lock()
	b.id++
	b.replies[b.id] = waiting
	message := map[string]any{"id": b.id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	body, err := json.Marshal(message)
	require.NoError(b.t, err)
	_, err = b.to.Write(append(body, 0))
	b.mu.Unlock()
	require.NoError(b.t, err)
	select {
	case r := <-waiting:
		require.Nil(b.t, r.Error, "%s: %+v", method, r.Error)
		if into != nil {
			require.NoError(b.t, json.Unmarshal(r.Result, into))
		}
	case <-time.After(browserPatience):
		require.Fail(b.t, "chromium does not answer", method)
	}
}

// eval returns the value of an expression in the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	require.Nil(b.t, out.ExceptionDetails, expression)
	return out.Result.Value
}

func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(browserPatience); b.eval(expression) != true; time.Sleep(50 * time.Millisecond) {
		require.True(b.t, time.Now().Before(deadline), "not before %s: %s", browserPatience, expression)
	}
}

// show sets the size of the screen and the colour scheme, and opens a page.
func (b *browser) show(url string, width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
}

// picture writes a screenshot of the whole page into the folder QOS_SCREENSHOTS, if it
// is set.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("QOS_SCREENSHOTS")
	if folder == "" {
		return
	}
	var out struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &out)
	data, err := base64.StdEncoding.DecodeString(out.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), data, 0o600))
}

// said returns what the page has written to the console since the last call.
func (b *browser) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.console
	b.console = nil
	return said
}

// screens are the screens on which operators see the page.
var screens = []struct {
	name          string
	width, height int
	scheme        string
}{{"day", 1400, 900, "light"}, {"night", 1400, 900, "dark"}, {"phone", 390, 844, "light"}, {"phone-night", 390, 844, "dark"}}

func TestThePageInABrowser(t *testing.T) {
	b := startBrowser(t)
	s, _ := scriptedPages(t, scriptedSource{})
	site := httptest.NewServer(s)
	defer site.Close()
	for _, screen := range screens {
		b.show(site.URL+"/status", screen.width, screen.height, screen.scheme)
		b.until(`document.querySelectorAll('#hosts tbody tr').length === 8`)
		b.until(`document.querySelectorAll('#chart polyline').length >= 8`)
		// Rates need two answers, which can take a while on a busy machine.
		b.until(`document.querySelector('#hosts tbody tr td:last-child').textContent !== '–'`)
		assert.Equal(t, true, b.eval(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, screen.width)), "%s: the page scrolls sideways", screen.name)
		assert.Equal(t, 8.0, b.eval(`document.querySelectorAll('#ring path').length`))
		assert.Contains(t, b.eval(`document.querySelector('#hosts tbody tr').textContent`), "ejected", "the worst first")
		assert.Contains(t, b.eval(`document.getElementById('errors').textContent`), "PARTIAL")
		assert.Equal(t, "▲ ready, 1 host ejected, 1 host suspect, 1 host probing", b.eval(`document.getElementById('ready').textContent`))
		assert.Contains(t, b.eval(`document.getElementById('tables').tHead.textContent`), "p95 ms, 20 s", "the one window of the page")
		assert.Equal(t, 1.0, b.eval(`new Set([...document.querySelectorAll('#figures div')].slice(0, 2).map((x) => x.lastChild.getBoundingClientRect().top)).size`), "tiles in line")
		dark := b.eval(`getComputedStyle(document.body).backgroundColor`) == "rgb(15, 20, 26)"
		assert.Equal(t, screen.scheme == "dark", dark, "day and night")
		b.picture(screen.name)
	}
	assert.Empty(t, b.said(), "errors, or violations of the policy")

	b.eval(`document.getElementById('config').open = true`)
	b.until(`document.getElementById('config-text').textContent.includes('contact_points')`)
	b.eval(`(() => { const t = document.getElementById('table'); t.value = 'shop.features'; t.dispatchEvent(new Event('change')); })()`)
	b.until(`document.querySelector('#figures .p95').classList.contains('over')`)

	site.CloseClientConnections()
	site.Close()
	b.until(`!document.getElementById('lost').hidden`)
	assert.Contains(t, b.eval(`document.getElementById('lost').textContent`), "The proxy cannot be reached since")
	assert.Equal(t, true, b.eval(`document.body.classList.contains('stale')`))
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 800, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.until(`innerWidth === 800`)
	assert.Equal(t, "✕ not reached", b.eval(`document.getElementById('ready').textContent`), "also when it is drawn again")
	b.picture("lost")
}

// TestNamesAreNeverMarkup has a control: as markup and without the policy, the same
// names take over the page.
func TestNamesAreNeverMarkup(t *testing.T) {
	b := startBrowser(t)
	s, _ := scriptedPages(t, scriptedSource{hostile: true})
	site := httptest.NewServer(s)
	defer site.Close()
	b.show(site.URL+"/status", 390, 844, "light")
	b.until(`document.querySelectorAll('#tables tbody tr').length >= 8`)
	for _, name := range hostile {
		quoted, err := json.Marshal(name)
		require.NoError(t, err)
		// Characters that reverse the direction of text are replaced.
		quoted = bytes.ReplaceAll(bytes.ReplaceAll(quoted, []byte("\u202e"), []byte("\ufffd")), []byte("\u2066"), []byte("\ufffd"))
		assert.Equal(t, true, b.eval(`[...document.querySelectorAll('#tables tbody th bdi')].some((x) => x.textContent === `+string(quoted)+`)`), name)
	}
	assert.Equal(t, 0.0, b.eval(`document.querySelectorAll('main img, main script, main a, td svg, th svg').length`))
	assert.Equal(t, true, b.eval(`document.documentElement.scrollWidth <= 390`), "a long name makes the page scroll sideways")
	assert.Empty(t, b.said())
	assert.Equal(t, "qosproxy", b.eval(`document.title`))
	b.picture("hostile")

	// The policy refuses what the page itself might allow.
	assert.Equal(t, "refused", b.eval(`(() => { try { document.body.insertAdjacentHTML('beforeend', '<p>'); return 'taken'; } catch (e) { return 'refused'; } })()`))
	assert.Equal(t, "refused", b.eval(`(() => { try { const s = document.createElement('p'); s.setAttribute('onclick', "document.title='owned'"); document.body.append(s); s.click(); return 'taken'; } catch (e) { return 'refused'; } })()`))
	assert.Equal(t, "qosproxy", b.eval(`document.title`))
	assert.NotEmpty(t, b.said(), "control: violations are seen")

	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, hostile[0])
	}))
	defer open.Close()
	b.show(open.URL, 390, 844, "light")
	b.until(`document.title === 'owned'`) // control: as markup without a policy, the name runs its code
}
