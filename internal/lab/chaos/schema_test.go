//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qosproxy/qosproxy/internal/lab/bench"
)

// schemaKeyspace holds the tables that scenarios alter.
const schemaKeyspace = "chaos_tables"

// retyped is a table that is dropped and created again with other types. Each type has a literal
// and the JSON that the proxy returns for it. No value of one type reads as that of another, and
// types that are likely to be mistaken for each other follow one another. fields are those of a
// user-defined type, which is created anew as well.
const (
	retyped = schemaKeyspace + ".retyped"
	udt     = schemaKeyspace + ".pair"
)

var retypings = []struct{ cql, literal, json, fields string }{
	{"int", "1111111", "1111111", ""}, {"text", "'three'", `"three"`, ""}, {"bigint", "22222222222", "22222222222", ""},
	{"double", "4.5", "4.5", ""}, {"boolean", "true", "true", ""}, {"blob", "0x0badcafe", `"0x0badcafe"`, ""},
	{"list<int>", "[1010101, 2020202]", "[1010101,2020202]", ""}, {"list<float>", "[1.5, 2.5]", "[1.5,2.5]", ""},
	{"map<text, int>", "{'a': 77}", `{"a":77}`, ""}, {"map<text, float>", "{'b': 7.5}", `{"b":7.5}`, ""},
	{"vector<int, 2>", "[5050505, 6060606]", "[5050505,6060606]", ""}, {"vector<float, 2>", "[0.5, 0.25]", "[0.5,0.25]", ""},
	{"frozen<pair>", "{a: 8080808, b: 'nine'}", `{"a":8080808,"b":"nine"}`, "a int, b text"},
	{"frozen<pair>", "{a: 0.75, b: 'ten'}", `{"a":0.75,"b":"ten"}`, "a float, b text"},
	{"set<bigint>", "{33333333333}", "[33333333333]", ""},
}

// The figures of scenarios that change the schema.
const (
	keysFailed  = "keys FAILED"
	wrongOrGone = "rows wrong or missing"
	otherErrors = "errors other than late or refused for load"
	valuesRead  = "values read of the other table"
	wrongValues = "values of another type"
)

var schemaChanges = scenario{
	name: "schema", fault: fmt.Sprintf("ALTER TABLE × %d on the table that is read, while another is dropped and created with other types", len(retypings)), quick: 1,
	promise: "0 wrong, 0 missing, no key FAILED and no lookup refused as wrong; no value of one type is read as another (collections, vectors and fields of UDTs too)",
	rely:    "The schema changes under load without a wrong row; a lookup may be late while nodes are busy with it.",
	without: "the column that is dropped is one that lookups name",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		d := a.fill(products(schemaKeyspace, "changing", 1000))
		s := a.own(d, plain(d)+"  - {name: "+retyped+", timeout: 2s}\n")
		defer s.close()
		kinds, column := retypings, "extra"
		if *short {
			kinds = retypings[6:12]
		}
		if !safe {
			kinds, column = retypings[:1], "stock"
		}
		prober := a.probeRetyped(s)
		during := a.during(s, span(10*time.Second), func() {
			for i, kind := range kinds {
				if i%2 == 0 == safe {
					a.cql("ALTER TABLE " + schemaKeyspace + ".changing ADD " + column + " int")
				} else {
					a.cql("ALTER TABLE " + schemaKeyspace + ".changing DROP " + column)
				}
				a.cql("DROP TABLE IF EXISTS " + retyped)
				if kind.fields != "" {
					a.cql("DROP TYPE IF EXISTS "+udt, "CREATE TYPE "+udt+" ("+kind.fields+")")
				}
				a.cql("CREATE TABLE "+retyped+" (id text PRIMARY KEY, v "+kind.cql+")",
					"INSERT INTO "+retyped+" (id, v) VALUES ('k', "+kind.literal+")")
			}
		})
		found, wrong := prober()
		a.sound(o, s, d, during)
		o.figure(Sum, valuesRead, float64(found), "")
		o.figure(Sum, wrongValues, float64(wrong), "")
		return o
	},
	judge: func(o *Outcome) []Check {
		return append(soundChecks(o), counted(wrongValues, int64(o.Value(wrongValues)), 0), sane("the other table was never read", o.Value(valuesRead) > 0))
	},
}

// sound notes whether the answers of a proxy match what was written, how many keys FAILED, by the
// proxy's own count, and which errors other than lateness and load there were.
func (a *arena) sound(o *Outcome, s *subject, d *bench.Dataset, l *Load) {
	o.load("during", l)
	o.figure(Sum, keysFailed, a.sum(s, "qosproxy_keys_total", "table", d.Profile.Keyspace+"."+d.Profile.Table, "status", "FAILED"), "")
	o.figure(Sum, wrongOrGone, float64(l.WrongRows+l.MissingKeys), "")
	o.figure(Sum, otherErrors, float64(neitherLateNorLoad(l)), "")
}

func soundChecks(o *Outcome) []Check {
	checks := []Check{sane("no lookup was answered", o.Load("during").OK > 0)}
	for _, name := range []string{keysFailed, wrongOrGone, otherErrors} {
		checks = append(checks, counted(name, int64(o.Value(name)), 0))
	}
	return checks
}

// neitherLateNorLoad counts the errors that do not come from a busy machine. Nodes that change
// their schema fifty times on two CPUs are busy. Errors beyond the first ten texts cannot be told
// apart.
func neitherLateNorLoad(l *Load) (n int64) {
	for text, count := range l.Errors {
		busy := []string{"TIMED_OUT", "DeadlineExceeded", "CANCEL", "ResourceExhausted", "SHED", "other"}
		if !slices.ContainsFunc(busy, func(word string) bool { return strings.Contains(text, word) }) {
			n += count
		}
	}
	return n
}

// probeRetyped reads the table of retypings until the returned function is called, which returns
// how many values came and how many of them nobody wrote.
func (a *arena) probeRetyped(s *subject) func() (found, wrong int64) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var probing sync.WaitGroup
	var found, wrong atomic.Int64
	for range 2 {
		probing.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				got, err := ask(ctx, s, retyped, "batchGet", `{"keys":["k"],"columns":["v"]}`)
				if err != nil || len(got.Results) == 0 {
					continue // the table does not exist at the moment
				}
				for _, row := range got.Results[0].Rows {
					found.Add(1)
					var value bytes.Buffer
					_ = json.Compact(&value, row["v"]) // leaves value empty if the column is missing
					if !slices.ContainsFunc(retypings, func(r struct{ cql, literal, json, fields string }) bool { return value.String() == r.json }) {
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

// tombstoneLimit is how many tombstones a node reads before it fails the read.
const tombstoneLimit = 5000

// tombs is a table with one key that has too many tombstones.
const (
	tombs        = schemaKeyspace + ".tombs"
	tombsBad     = 17
	otherAnswers = "answers other than 49 FOUND and 1 FAILED"
)

// fillTombs creates the table, fills it and returns its keys.
func (a *arena) fillTombs() []string {
	names := make([]string, 50)
	for i := range names {
		names[i] = fmt.Sprintf("key-%02d", i)
	}
	if a.tombs {
		return names
	}
	a.cql("CREATE KEYSPACE IF NOT EXISTS "+schemaKeyspace+" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		"CREATE TABLE IF NOT EXISTS "+tombs+" (id text, ck int, v text, PRIMARY KEY (id, ck)) WITH speculative_retry = 'NONE'")
	for _, name := range names {
		a.must(a.site.Client.Exec(a.t.Context(), "INSERT INTO "+tombs+" (id, ck, v) VALUES (?, 0, ?)", name, name))
	}
	var deleted iter.Seq[[]any] = func(yield func([]any) bool) {
		for ck := range tombstoneLimit + 1000 {
			if !yield([]any{names[tombsBad], int32(ck + 1)}) {
				return
			}
		}
	}
	a.must(a.site.Client.Load(a.t.Context(), "DELETE FROM "+tombs+" WHERE id = ? AND ck = ?", deleted, 32))
	a.tombs = true
	return names
}

var tombstones = scenario{
	name: "tombstones", fault: "one key with more tombstones than nodes read, among 49 good ones", promise: "49 FOUND and 1 FAILED", quick: 3,
	rely:    "One key that no node can read costs the other keys of the lookup nothing.",
	without: "one IN by the plain driver",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		names := a.fillTombs()
		if !safe {
			rows, err := a.site.Client.QueryRaw(a.t.Context(), "SELECT id FROM "+tombs+" WHERE id IN ('"+strings.Join(names, "', '")+"')")
			a.t.Logf("%d rows, %v", len(rows), err)
			o.figure(Sum, "good keys not found", float64(49-len(rows)), "")
			o.figure(Sum, "lookups", 1, "")
			return o
		}
		d := a.data[3]
		s := a.own(d, plain(d)+"  - {name: "+tombs+", timeout: 2s}\n")
		defer s.close()
		lookups, other, unfound := 60, 0, 0
		body := `{"keys":["` + strings.Join(names, `","`) + `"]}`
		for range lookups {
			got, err := ask(a.t.Context(), s, tombs, "batchGet", body)
			a.must(err)
			counts := map[string]int{}
			for _, r := range got.Results {
				counts[r.Status]++
			}
			if counts["FOUND"] != 49 || counts["FAILED"] != 1 || got.Results[tombsBad].Status != "FAILED" {
				other++
			}
			unfound += 49 - counts["FOUND"]
		}
		o.figure(Sum, "lookups", float64(lookups), "")
		o.figure(Sum, otherAnswers, float64(other), "")
		o.figure(Sum, "good keys not found", float64(unfound), "")
		return o
	},
	judge: func(o *Outcome) []Check {
		return []Check{
			counted(otherAnswers, int64(o.Value(otherAnswers)), 0),
			counted("good keys not found", int64(o.Value("good keys not found")), 0),
			sane("no lookups were made", o.Value("lookups") > 0),
		}
	},
}

// promisedPrepares is how often a node may be asked to prepare after one eviction: each form of the
// statement (IN, and = for a group of one) once for each reader at that moment.
const promisedPrepares = 4

var prepared = scenario{
	name: "prepared", fault: "prepared statements evicted 10 times", quick: 1,
	promise: fmt.Sprintf("0 wrong, 0 missing, no key FAILED; ≤ %d prepares per node and eviction, counted at the nodes", promisedPrepares),
	rely:    "Nodes that forget prepared statements are asked to prepare them once, not by every lookup.",
	without: "a client that has every statement prepared",
	measure: func(a *arena, safe bool) *Outcome {
		o := &Outcome{}
		evictions := 10
		if *short {
			evictions = 4
		}
		d := a.fill(products(schemaKeyspace, "prepared", 1000))
		s := a.own(d, plain(d))
		defer s.close()
		a.load(s, 2*time.Second)
		for i := range a.cluster.Nodes() {
			_, err := a.cluster.Nodetool(a.t.Context(), i, "enableauditlog", "--logger", "FileAuditLogger", "--included-categories", "PREPARE")
			a.must(err)
		}
		before := a.prepares(d.Profile.Table)
		during := a.during(s, span(8*time.Second), func() {
			for i := range evictions {
				// A change of the columns makes nodes forget the statements of a table.
				a.cql("ALTER TABLE " + schemaKeyspace + ".prepared " + []string{"ADD extra int", "DROP extra"}[i%2])
				for n := 0; !safe && n < 12*promisedPrepares*len(a.cluster.Nodes()); n++ {
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
		a.sound(o, s, d, during)
		o.figure(Sum, "prepares", float64(asked), "")
		o.figure(Sum, "evictions of a node", float64(evictions*len(a.cluster.Nodes())), "")
		return o
	},
	judge: func(o *Outcome) []Check {
		return append(soundChecks(o),
			counted("prepares", int64(o.Value("prepares")), promisedPrepares*o.Value("evictions of a node")),
			sane("no prepare was counted: the audit log does not work", o.Value("prepares") > 0))
	},
}

// prepares returns how many statements on a table were prepared according to the nodes' audit logs.
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
