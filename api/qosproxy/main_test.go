package qosproxy_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// address is the address of a proxy with the rows of the examples. This module cannot run a
// proxy. A test of internal/apitest/client does, and runs the examples against it.
var address = os.Getenv("QOSPROXY_EXAMPLES_ADDRESS")

func TestMain(m *testing.M) {
	flag.Parse()
	if address == "" {
		fmt.Println("the examples need a proxy: go test ./internal/apitest/client runs them")
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
