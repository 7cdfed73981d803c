// Command h2spec tests a server for what HTTP/2 requires, with the cases of
// github.com/summerwind/h2spec. It prints one line for each case: "passed", "failed"
// or "skipped", the name of the case, and for one that failed what was expected and
// what came, separated by tabs. The caller decides which cases may fail.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

func main() {
	c := &config.Config{Strict: true}
	flag.StringVar(&c.Host, "host", "127.0.0.1", "host of the server")
	flag.IntVar(&c.Port, "port", 0, "port of the server")
	flag.StringVar(&c.Path, "path", "/", "path of the requests")
	flag.BoolVar(&c.TLS, "tls", false, "connect over TLS, without a look at the certificate")
	flag.DurationVar(&c.Timeout, "timeout", 2*time.Second, "how long a case waits for what must come")
	flag.IntVar(&c.MaxHeaderLen, "max-header", 4000, "length of the header of cases that need a long one, in bytes")
	flag.Parse()
	c.Insecure = c.TLS

	out, progress := os.Stdout, os.Stdout
	// The cases print progress, and only to os.Stdout.
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		progress = null
	}
	os.Stdout = progress
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(c)
		report(out, group)
	}
}

// report prints the cases of a group and of those below it.
func report(w io.Writer, group *spec.TestGroup) {
	for i, test := range append(group.Tests, group.StrictTests...) {
		if test.Result == nil {
			continue
		}
		verdict, why := "passed", ""
		switch {
		case test.Result.Skipped:
			verdict = "skipped"
		case test.Result.Failed && !wasReset(test.Result.Error):
			verdict = "failed"
			why = "\t" + oneLine(test.Result.Error)
		}
		fmt.Fprintf(w, "%s\t%s/%d %s%s\n", verdict, group.ID(), i+1, test.Desc, why)
	}
	for _, below := range group.Groups {
		report(w, below)
	}
}

// wasReset reports whether a case expected the end of the connection and saw a reset,
// which is how a connection ends whose peer closes it before it has read everything.
func wasReset(err error) bool {
	text := err.Error()
	return strings.Contains(text, "Connection closed") &&
		(strings.Contains(text, "connection reset by peer") || strings.Contains(text, "broken pipe"))
}

// oneLine says what a case expected and what it saw.
func oneLine(err error) string {
	text := err.Error()
	if e, ok := err.(*spec.TestError); ok {
		text = "expected " + strings.Join(e.Expected, " or ") + "; came " + e.Actual
	}
	return strings.Join(strings.Fields(text), " ")
}
