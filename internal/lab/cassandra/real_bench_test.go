//go:build lab

package cassandra_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// BenchmarkRealRead reads one group from one host of a real cluster. It is skipped in short mode.
func BenchmarkRealRead(b *testing.B) {
	_, admin := shared.get(b)
	name := shared.table(b, `CREATE TABLE %s (id text PRIMARY KEY, v text)`)
	var keys []partition.Key
	for i := range 50 {
		require.NoError(b, admin.Exec(b.Context(), "INSERT INTO test."+name+" (id, v) VALUES (?, ?)", strconv.Itoa(i), fmt.Sprintf("%0450d", i)))
		keys = append(keys, textKey(b, strconv.Itoa(i)))
	}
	c := open(b, config(shared.cluster))
	table := definition(b, c, name)
	host := c.Ring().Host(0)
	for _, size := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("%d keys", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sub, _ := query(executor.Query{Table: table, Columns: columns(b, table, "v")}, host, keys[:size]...)
				if _, err := c.Read(b.Context(), sub); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
