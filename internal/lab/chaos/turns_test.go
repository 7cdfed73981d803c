//go:build chaos

package chaos

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

var turns = scenario{
	name: "sigterm", fault: "SIGTERM and restart of two proxies in turn, three times each", promise: "0 lost", quick: 1,
	rely: "A proxy that is told to stop answers what it has begun, and loses none.", judge: noneLost,
	without: "shutdown.timeout 1ms, which cuts off what is in-flight",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		d := a.data[3]
		shutdown := "{delay: 1s, timeout: 30s}"
		if !safe {
			shutdown = "{delay: 0s, timeout: 1ms}"
		}
		yaml := fmt.Sprintf("listen: {%s}\nshutdown: %s\ntables:\n  - {name: chaos_rf3.products, timeout: 2s}\n", anywhere, shutdown)
		one, two := a.own(d, yaml), a.own(d, yaml)
		defer one.close()
		defer two.close()
		s := a.client(one.proxy, d, func(o *bench.Open) { o.GRPC = one.proxy.GRPC + "," + two.proxy.GRPC })
		defer s.leave()
		times := 3
		switch {
		case !safe:
			times = 5
		case *short:
			times = 1
		}
		restarts := 0
		a.load(s, 2*time.Second) // so that the client finds both
		// Some lookups are in-flight at every moment.
		during := a.duringAt(s, bench.Load{Concurrency: 6}, 0, func() {
			a.hold(2 * time.Second)
			for range times {
				for _, p := range []*subject{one, two} {
					err := p.proxy.Restart(a.t.Context())
					if safe {
						a.must(err)
					}
					restarts++
					a.hold(2 * time.Second) // so that the client finds it again
				}
			}
		})
		o.load("during", during)
		o.figure(Sum, "lookups lost", float64(during.Lost), "")
		o.figure(Sum, "restarts", float64(restarts), "")
		return o
	},
}

// noneLost allows late answers, but no missing ones.
func noneLost(o *Outcome) []Check {
	during := o.Load("during")
	return []Check{counted("lookups lost", during.Lost, 0), sane("no lookups were made", during.Lookups > 0)}
}

// reloaded returns the n-th version of a proxy's configuration.
func reloaded(dir string, n int) string {
	pair := fmt.Sprintf("{cert_file: %[1]s/cert.pem, key_file: %[1]s/key.pem}", dir)
	return fmt.Sprintf(`listen: {%s, max_connection_age: 2s, tls: {grpc: %s, http: %s}}
shutdown: {delay: 0s}
clients:
  - {name: client-%d, token_file: %s/token, keys_per_second: %d, tables: [{name: chaos_rf3.products}]}
tables:
  - {name: chaos_rf3.products, timeout: 2s, max_keys: %d, speculative_retry: %dms}
`, anywhere, pair, pair, n%2, dir, 1_000_000+n, 100+n, 15+n%2)
}

const staleCertificates = "old certificates in use at the end"

var reloads = scenario{
	name: "reload", fault: "certificates and configuration exchanged × 30, connections made anew every 2 s", promise: "0 failed", quick: 3,
	rely:    "Certificates and settings change under load without a lookup that fails.",
	without: "a restart in place of each of 5 reloads",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		d := a.data[3]
		dir, err := os.MkdirTemp(a.cluster.Dir(), "reload")
		a.must(err)
		authority, err := newAuthority()
		a.must(err)
		const token = "a-token-for-the-chaos-suite-0123456789"
		a.must(os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600))
		a.must(authority.issue(dir, 0))
		proxy, err := a.site.Start(a.t.Context(), reloaded(dir, 0))
		a.must(err)
		s := a.client(proxy, d, func(o *bench.Open) {
			o.Token = token
			o.TLS = &tls.Config{RootCAs: authority.pool(), ServerName: serverName, MinVersion: tls.VersionTLS12}
		})
		defer s.close()
		a.load(s, 2*time.Second)
		times := 30
		if *short {
			times = 10
		}
		if !safe {
			times = 5
		}
		during := a.during(s, span(15*time.Second), func() {
			for n := 1; n <= times; n++ {
				if !safe {
					a.must(proxy.Restart(a.t.Context()))
					a.hold(time.Second)
					continue
				}
				a.must(authority.issue(dir, n))
				a.must(replace(proxy.File(), []byte(reloaded(dir, n))))
				before := a.sum(s, "qosproxy_config_reloads_total", "result", "success")
				a.must(syscall.Kill(proxy.PID(), syscall.SIGHUP))
				for wait := time.Now(); a.sum(s, "qosproxy_config_reloads_total", "result", "success") == before; a.hold(20 * time.Millisecond) {
					if time.Since(wait) > 10*time.Second {
						a.t.Fatalf("reload %d is not done after 10 s", n)
					}
				}
			}
		})
		shown, err := certificateOf(proxy.GRPC)
		a.must(err)
		o.load("during", during)
		o.figure(Sum, "versions", float64(times), "")
		stale := 0.0
		if safe && shown != int64(times)+1 {
			stale = 1
		}
		o.figure(Sum, staleCertificates, stale, "")
		return o
	},
	judge: func(o *Outcome) []Check {
		promise := noFailures
		if *short { // its nodes are cold, and late in any case
			promise = noneLost
		}
		return append(promise(o), counted(staleCertificates, int64(o.Value(staleCertificates)), 0))
	},
}

// certificateOf returns the serial number of the certificate at an address.
func certificateOf(address string) (int64, error) {
	// The certificate is only inspected, not trusted.
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}
