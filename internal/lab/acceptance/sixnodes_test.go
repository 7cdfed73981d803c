package acceptance

import (
	"strings"
	"testing"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// sixNodesConfig allows the tables of the suite.
const sixNodesConfig = `
defaults:
  timeout: 10s           # what is right is tested here, what is late in TestFaults
  max_keys: 1000
tables:
  - name: types.wide
  - name: types.counts
  - name: data.plain
  - name: data.pair
  - name: data.features
  - name: data.features_small
    max_rows_per_key: 3
  - name: data.guarded
    columns: [id, open]
  - name: data.changing
  - name: data.appearing
  - name: bench.small
  - name: owned.rows
    consistency: NODE_LOCAL
  - name: slices.log
    consistencies: [LOCAL_QUORUM]
`

// TestSixNodes boots six nodes with 16 vnodes in three racks and tests there what needs no fault.
func TestSixNodes(t *testing.T) {
	cluster, client := boot(t, devcluster.Config{Nodes: allowNodeLocal(nodes("dc1", 6, 3, 16))})
	typed := scale(100)
	createTypes(t, client, typed)
	data := createData(t, client)
	createOwned(t, client)
	sliced := createRows(t, client)
	define(t, client, logTable)
	tables := sixNodesConfig + "  - name: " + strings.Join(rowTableNames(), "\n  - name: ") + "\n"
	p := serve(t, cluster, tables)

	t.Run("placement is Cassandra's", func(t *testing.T) { comparePlacement(t, cluster, client, "dc1") })
	t.Run("rows are SELECT JSON", func(t *testing.T) { testRowsAreSelectJSON(t, p, client, typed) })
	t.Run("clients in other languages", func(t *testing.T) { testClients(t, p, typed) })
	t.Run("random lookups", func(t *testing.T) { testRandomLookups(t, p, data, scale(2500)) })
	t.Run("both listeners agree", func(t *testing.T) { testListenersAgree(t, p, data, scale(500)) })
	t.Run("partitions of many rows", func(t *testing.T) { testManyRows(t, p) })
	t.Run("rows by primary key and slices are SELECT's", func(t *testing.T) { testRows(t, p, client, sliced, scale(150)) })
	t.Run("pages of a partition that changes", func(t *testing.T) {
		testPagesOfAChangingPartition(t, [2]*proxy{p, serve(t, cluster, tables)}, client, scale(50))
	})
	t.Run("write times are SELECT's", func(t *testing.T) { testFunctions(t, p, client, typed) })
	t.Run("bad requests name the field", func(t *testing.T) { testBadRequests(t, p) })
	t.Run("a changing schema", func(t *testing.T) { testSchemaChanges(t, p, client) })
	t.Run("a lookup ends at the client's deadline", func(t *testing.T) { testDeadline(t, p, cluster) })
	t.Run("bench checks what targets answer", func(t *testing.T) { testBench(t, p, cluster, client) })
	t.Run("metrics", func(t *testing.T) { testMetrics(t, p) })
	t.Run("admin pages", func(t *testing.T) { testAdmin(t, p) })
	t.Run("NODE_LOCAL while nodes join and leave", func(t *testing.T) {
		if scale(1) == 1 {
			t.Skip("takes two minutes and a half; QOSPROXY_ACCEPTANCE_SCALE=2 or more runs it")
		}
		testOwnershipChanges(t, p, cluster)
	})
}
