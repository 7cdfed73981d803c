package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/status"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// topFlags are the flags of the command top.
type topFlags struct {
	admin    string
	config   string
	interval time.Duration
	once     bool
	output   string
	tls      tlsFlags
}

// The shortest --interval, and how long one answer may take.
const (
	topLeast    = 200 * time.Millisecond
	topPatience = 5 * time.Second
)

func newTop() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running proxy: SLA, hosts, tables, clients, trouble",
		Long: `top shows the status page of a running proxy in a terminal: latency against the SLA,
rates, hosts with their state, tables, clients and the latest trouble. It asks the admin
listener at the address of the configuration, or at --admin. q or Ctrl-C ends it.

Of each host it shows the outstanding keys, the statements in-flight (STMTS), the sub-queries
that wait to share a statement (WAIT), and the keys of a statement (K/STMT). Statements of
tables with merge off are not counted.

Without a terminal it prints one text after another. -o json prints the answers of the
proxy, one object a line. Their counts are since its start.`,
		Example: `  qosproxy top
  qosproxy top --admin 10.0.0.7:8081 --interval 5s
  kubectl exec deploy/qosproxy -- /qosproxy top --once
  qosproxy top --admin proxy.example.org:8081 --ca ca.pem --cert client.pem --key client-key.pem
  qosproxy top --once -o json | jq .hosts`,
		Args: command.Exactly(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.OneOf(f.output, "table", "json"); err != nil {
				return err
			}
			if f.interval < topLeast {
				return command.Usagef("--interval %s: use %s or more", f.interval, topLeast)
			}
			t, err := f.open()
			if err != nil {
				return err
			}
			return t.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	command.ConfigFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.admin, "admin", "", "admin listener: HOST:PORT, unix:///PATH or a URL (default: listen.admin of the configuration)")
	f.tls.add(cmd.Flags(), "--admin")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "time between two samples")
	cmd.Flags().BoolVar(&f.once, "once", false, "show one sample and exit; a table takes two, an interval apart, for the rates")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "output: table or json")
	return cmd
}

// top shows the state of one proxy.
type top struct {
	topFlags
	url    string
	client *http.Client
}

// open finds the address of the proxy.
func (f topFlags) open() (*top, error) {
	encrypted := f.tls.encrypted()
	if f.admin == "" {
		cfg, err := command.LoadConfig(f.config)
		if err != nil {
			return nil, err
		}
		if f.admin = cfg.Listen.Admin; f.admin == "" {
			return nil, command.Usagef("listen.admin is off in the configuration; --admin names that of another proxy")
		}
		encrypted = encrypted || cfg.Listen.TLS.Admin.CertFile != ""
	}
	config, err := f.tls.config()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config}
	t := &top{topFlags: f, client: &http.Client{Timeout: topPatience, Transport: transport}}
	scheme := "http://"
	if encrypted {
		scheme = "https://"
	}
	if path, ok := strings.CutPrefix(f.admin, "unix://"); ok {
		t.url = scheme + "unix/status/live"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return t, nil
	}
	address := f.admin
	if !strings.Contains(address, "://") {
		address = scheme + f.admin
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, command.Usagef("--admin %q: use HOST:PORT, unix:///PATH or a URL of http or https", f.admin)
	}
	t.url = u.JoinPath("status/live").String()
	return t, nil
}

// maxAnswer bounds the size of an answer, in case the server is not a proxy.
const maxAnswer = 16 << 20

// ask returns the answer of the proxy, raw and decoded.
func (t *top) ask(ctx context.Context) ([]byte, *status.Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		if remedy := tlsRemedy(err.Error()); remedy != "" {
			return nil, nil, fmt.Errorf("no TLS connection to %s: %s (%w)", t.admin, remedy, err)
		}
		return nil, nil, fmt.Errorf("no proxy answers at %s: %w; is qosproxy serve running, and is this its listen.admin?", t.admin, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("the answer of %s ended early: %w", t.admin, err)
	}
	var s status.Snapshot
	if resp.StatusCode != http.StatusOK || json.Unmarshal(body, &s) != nil || s.Time.IsZero() {
		return nil, nil, fmt.Errorf("%s is not the admin listener of a qosproxy of this version: GET %s answers %s", t.admin, t.url, resp.Status)
	}
	return body, &s, nil
}

// run shows the proxy until ctx ends, or once with --once.
func (t *top) run(ctx context.Context, out io.Writer) error {
	if t.output == "json" {
		return t.runJSON(ctx, out)
	}
	if t.once {
		return t.runOnce(ctx, out)
	}
	if terminal.Is(out) {
		return t.runScreen(ctx, out.(*os.File))
	}
	var h topHistory
	return t.every(ctx, func() error {
		_, s, err := t.ask(ctx)
		if err != nil {
			return err
		}
		h.add(s)
		_, err = io.WriteString(out, strings.Join(h.draw(plainWidth, 0, false), "\n")+"\n\n")
		return err
	})
}

// every calls do at once and after each interval, until ctx ends or do fails.
func (t *top) every(ctx context.Context, do func() error) error {
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	for {
		if err := do(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (t *top) runJSON(ctx context.Context, out io.Writer) error {
	look := func() error {
		body, _, err := t.ask(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(body)))
		return err
	}
	if t.once {
		return look()
	}
	return t.every(ctx, look)
}

func (t *top) runOnce(ctx context.Context, out io.Writer) error {
	var h topHistory
	for i := range 2 {
		if i > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(t.interval):
			}
		}
		_, s, err := t.ask(ctx)
		if err != nil {
			return err
		}
		h.add(s)
	}
	_, err := io.WriteString(out, strings.Join(h.draw(terminal.Columns(out, plainWidth), 0, false), "\n")+"\n")
	return err
}

// runScreen draws on a terminal until q, Ctrl-C or the end of ctx. A proxy that cannot
// be reached is reported there, and asked again.
func (t *top) runScreen(ctx context.Context, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		if before, err := term.MakeRaw(in); err == nil {
			defer func() { _ = term.Restore(in, before) }()
			go quitOnKey(os.Stdin, cancel)
		}
	}
	fmt.Fprint(out, terminal.EnterScreen)
	defer fmt.Fprint(out, terminal.LeaveScreen)
	var h topHistory
	colour := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return t.every(ctx, func() error {
		_, s, err := t.ask(ctx)
		if err == nil {
			h.add(s)
		}
		h.lost = err
		width, height, sizeErr := term.GetSize(int(out.Fd()))
		if sizeErr != nil || width <= 0 || height <= 0 {
			width, height = plainWidth, 24
		}
		lines := h.draw(width, height, colour)
		// One write does not flicker over a slow line. In raw mode a line feed alone
		// does not return to the first column.
		_, err = io.WriteString(out, terminal.Home+strings.Join(lines, terminal.ClearLine+"\r\n")+terminal.ClearLine+terminal.ClearBelow)
		return err
	})
}

// quitOnKey calls quit on q, Q, Ctrl-C or the end of the input. In raw mode Ctrl-C is a
// byte and no signal.
func quitOnKey(in io.Reader, quit func()) {
	key := make([]byte, 1)
	for {
		n, err := in.Read(key)
		if err != nil || n == 1 && strings.ContainsRune("qQ\x03\x04", rune(key[0])) {
			quit()
			return
		}
	}
}
