//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/bench"
	"github.com/qosproxy/qosproxy/internal/report"
)

// schemaKeyspace holds the tables that scenarios alter.
const schemaKeyspace = "chaos_tables"

// retyped is a table that is dropped and made again with other types: each with a
// literal, and what the proxy makes of it. No value of one type reads as that of
// another.
const retyped = schemaKeyspace + ".retyped"

var retypings = []struct{ cql, literal, json string }{
	{"int", "1111111", "1111111"}, {"text", "'three'", `"three"`}, {"bigint", "22222222222", "22222222222"},
	{"double", "4.5", "4.5"}, {"boolean", "true", "true"}, {"blob", "0x0badcafe", `"0x0badcafe"`},
}

var schemaChanges = scenario{
	name: "schema", fault: "ALTER TABLE × 50 on the table that is read, while another is dropped and created with other types", quick: true,
	promise: "0 wrong, 0 missing, no key FAILED and no lookup refused as wrong; no value of one type is read as another",
	without: "the column that is dropped is one that lookups name",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		d := a.fill(products(schemaKeyspace, "changing", 1000))
		s := a.own(d, plain(d)+"  - {name: "+retyped+", timeout: 2s}\n")
		defer s.close()
		alters, column := 50, "extra"
		if *short {
			alters = 10
		}
		if !safe {
			alters, column = 1, "stock"
		}
		prober := a.probeRetyped(s)
		during := a.during(s, span(20*time.Second), func() {
			for i := range alters {
				if i%2 == 0 == safe {
					a.cql("ALTER TABLE " + schemaKeyspace + ".changing ADD " + column + " int")
				} else {
					a.cql("ALTER TABLE " + schemaKeyspace + ".changing DROP " + column)
				}
				kind := retypings[i%len(retypings)]
				a.cql("DROP TABLE IF EXISTS "+retyped, "CREATE TABLE "+retyped+" (id text PRIMARY KEY, v "+kind.cql+")",
					"INSERT INTO "+retyped+" (id, v) VALUES ('k', "+kind.literal+")")
			}
		})
		found, wrong := prober()
		o.note("during:", "%d ALTER, %s", alters, seen(during))
		o.note("other table:", "%d values read, %d wrong", found, wrong)
		a.sound(&o, s, d, during)
		o.require(wrong == 0 && (found > 0 || !safe), "%d of %d values of the table that was made anew were wrong", wrong, found)
		return o
	},
}

// sound requires that what a proxy of its own answered of some data is as written, that no key FAILED, by
// the proxy's own count, and that nothing but lateness and load kept lookups from their answers.
func (a *arena) sound(o *Outcome, s *subject, d *bench.Dataset, r *report.Round) {
	c := r.Counts
	unread := a.sum(s, "qosproxy_keys_total", "table", d.Profile.Keyspace+"."+d.Profile.Table, "status", "FAILED")
	o.require(unread == 0, "%.0f keys FAILED", unread)
	o.require(c.OK > 0 && c.WrongRows+c.MissingKeys+neitherLateNorLoad(r) == 0, "%d wrong rows, %d missing keys, %d errors of %d lookups",
		c.WrongRows, c.MissingKeys, neitherLateNorLoad(r), c.Lookups)
}

// neitherLateNorLoad counts the errors that tell of something else than of a machine
// that is busy: nodes that change their schema fifty times on two CPUs are. The texts
// beyond ten are not told apart.
func neitherLateNorLoad(r *report.Round) (n int64) {
	for text, count := range r.Counts.Errors {
		busy := []string{"TIMED_OUT", "DeadlineExceeded", "CANCEL", "ResourceExhausted", "SHED", "other"}
		if !slices.ContainsFunc(busy, func(word string) bool { return strings.Contains(text, word) }) {
			n += count
		}
	}
	return n
}

// probeRetyped reads the table of retypings until the function that it returns is
// called, which says how many values came and how many of them nobody wrote.
func (a *arena) probeRetyped(s *subject) func() (found, wrong int64) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var probing sync.WaitGroup
	var found, wrong atomic.Int64
	for range 2 {
		probing.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				got, err := ask(ctx, s, retyped, "batchGet", `{"keys":["k"],"columns":["v"]}`)
				if err != nil || len(got.Results) == 0 {
					continue // not there at the moment
				}
				for _, row := range got.Results[0].Rows {
					found.Add(1)
					// Null is what is read between a table and its first row.
					if !slices.ContainsFunc(retypings, func(r struct{ cql, literal, json string }) bool { return string(row["v"]) == r.json }) {
						wrong.Add(1)
					}
				}
			}
		})
	}
	return func() (int64, int64) {
		cancel()
		probing.Wait()
		return found.Load(), wrong.Load()
	}
}

// tombstoneLimit is how many tombstones a node reads before it gives up.
const tombstoneLimit = 5000

var tombstones = scenario{
	name: "tombstones", fault: "one key with more tombstones than nodes read, among 49 good ones", promise: "49 FOUND and 1 FAILED", quick: true,
	without: "one IN by the plain driver",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		const table = schemaKeyspace + ".tombs"
		a.cql("CREATE KEYSPACE IF NOT EXISTS "+schemaKeyspace+" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
			"CREATE TABLE IF NOT EXISTS "+table+" (id text, ck int, v text, PRIMARY KEY (id, ck)) WITH speculative_retry = 'NONE'")
		names := make([]string, 50)
		for i := range names {
			names[i] = fmt.Sprintf("key-%02d", i)
			a.must(a.site.Client.Exec(a.t.Context(), "INSERT INTO "+table+" (id, ck, v) VALUES (?, 0, ?)", names[i], names[i]))
		}
		const bad = 17
		var deleted iter.Seq[[]any] = func(yield func([]any) bool) {
			for ck := range tombstoneLimit + 1000 {
				if !yield([]any{names[bad], int32(ck + 1)}) {
					return
				}
			}
		}
		a.must(a.site.Client.Load(a.t.Context(), "DELETE FROM "+table+" WHERE id = ? AND ck = ?", deleted, 32))
		if !safe {
			rows, err := a.site.Client.QueryRaw(a.t.Context(), "SELECT id FROM "+table+" WHERE id IN ('"+strings.Join(names, "', '")+"')")
			o.note("rows", "%d, %v", len(rows), err)
			o.require(len(rows) == 49, "%d of 49 keys found", len(rows))
			return o
		}
		d := a.data[3]
		s := a.own(d, plain(d)+"  - {name: "+table+", timeout: 2s}\n")
		defer s.close()
		times, right := 200, 0
		if *short {
			times = 50
		}
		body := `{"keys":["` + strings.Join(names, `","`) + `"]}`
		for range times {
			got, err := ask(a.t.Context(), s, table, "batchGet", body)
			a.must(err)
			counts := map[string]int{}
			for _, r := range got.Results {
				counts[r.Status]++
			}
			if counts["FOUND"] == 49 && counts["FAILED"] == 1 && got.Results[bad].Status == "FAILED" {
				right++
			} else {
				o.note("also", "%v", counts)
			}
		}
		o.note("lookups", "%d, %d with 49 FOUND and 1 FAILED", times, right)
		o.require(right == times, "%d of %d lookups", times-right, times)
		return o
	},
}

// promisedPrepares is how often a node may be asked to prepare after one eviction:
// each form of the statement (IN, and = for a group of one) once for those who ask
// at that moment.
const promisedPrepares = 4

var prepared = scenario{
	name: "prepared", fault: "prepared statements evicted 20 times", quick: true,
	promise: fmt.Sprintf("0 wrong, 0 missing, no key FAILED; ≤ %d prepares per node and eviction, counted at the nodes", promisedPrepares),
	without: "a client that has every statement prepared",
	measure: func(a *arena, safe bool) outcome {
		var o outcome
		const evictions = 20
		d := a.fill(products(schemaKeyspace, "prepared", 1000))
		s := a.own(d, plain(d))
		defer s.close()
		a.load(s, 2*time.Second)
		for i := range a.cluster.Nodes() {
			_, err := a.cluster.Nodetool(a.t.Context(), i, "enableauditlog", "--logger", "FileAuditLogger", "--included-categories", "PREPARE")
			a.must(err)
		}
		before := a.prepares(d.Profile.Table)
		during := a.during(s, span(20*time.Second), func() {
			for i := range evictions {
				// A change of the columns makes nodes forget the statements of a table.
				a.cql("ALTER TABLE " + schemaKeyspace + ".prepared " + []string{"ADD extra int", "DROP extra"}[i%2])
				for n := 0; !safe && n < 3*promisedPrepares*len(a.cluster.Nodes()); n++ {
					_, err := a.site.Client.QueryRaw(a.t.Context(), fmt.Sprintf("SELECT id FROM %s.prepared WHERE id = ? LIMIT %d", schemaKeyspace, 1000*(i+1)+n), "x")
					a.must(err)
				}
			}
		})
		asked := a.prepares(d.Profile.Table) - before
		for i := range a.cluster.Nodes() {
			_, err := a.cluster.Nodetool(a.t.Context(), i, "disableauditlog")
			a.must(err)
		}
		most := promisedPrepares * evictions * len(a.cluster.Nodes())
		o.note("during:", "%s", seen(during))
		o.note("prepares", "%d for %d evictions on %d nodes", asked, evictions, len(a.cluster.Nodes()))
		a.sound(&o, s, d, during)
		o.require(asked > 0 && asked <= most, "%d prepares, promised at most %d (and none counts for a broken audit log)", asked, most)
		return o
	},
}

// prepares counts what the audit logs of the nodes say of statements on a table
// that were prepared.
func (a *arena) prepares(table string) int {
	total := 0
	for _, n := range a.cluster.Nodes() {
		log, err := os.ReadFile(n.LogPath())
		a.must(err)
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "PREPARE_STATEMENT") && strings.Contains(line, table) {
				total++
			}
		}
	}
	return total
}
