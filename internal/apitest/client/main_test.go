package client

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/qosproxy/qosproxy/internal/server"
	"github.com/qosproxy/qosproxy/internal/standin"
)

// address is the address of a proxy that runs during the tests.
var address string

func TestMain(m *testing.M) {
	s, stop, err := standin.Serve(context.Background(), server.Config{GRPC: server.Listener{Address: "127.0.0.1:0"}}, server.Deps{},
		standin.Table{
			Name: "shop.products", Columns: []string{"id text", "name text", "price decimal", "tags set<text>"},
			Rows: [][]string{
				{`"sku-1"`, `"Kettle"`, `"19.50"`, `["kitchen","steel"]`},
				{`"sku-2"`, `"Lamp"`, `"45.00"`, `null`},
				{`"sku-slow"`, `"Anvil"`, `"99.00"`, `null`},
			},
			Slow: map[string]time.Duration{`"sku-slow"`: time.Minute},
		},
		standin.Table{
			Name: "shop.orders", Columns: []string{"region text", "year smallint", "number int", "total decimal"}, Key: 2, Clustering: 1,
			Rows: [][]string{{`"north"`, `2026`, `1`, `"10.00"`}, {`"north"`, `2026`, `2`, `"12.50"`}},
		},
		standin.Table{
			Name: "shop.others", Columns: []string{"id int", "count counter", "span duration", "place frozen<address>", "spots frozen<list<frozen<tuple<int, text>>>>"},
			Types: map[string][]string{"address": {"street text", "zip int"}},
			Rows:  [][]string{{`1`, `7`, `"1mo2d3ns"`, `{"street":"High St","zip":null}`, `[[1,"a"],[2,null]]`}, {`2`, `null`, `null`, `null`, `null`}},
		})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address = s.Addr("grpc").String()
	code := m.Run()
	stop()
	os.Exit(code)
}
