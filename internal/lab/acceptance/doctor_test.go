package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/cassandra"
	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
)

// doctorReport is what qosproxy doctor -o json prints.
type doctorReport struct {
	LocalDC  string `json:"local_dc"`
	Findings []struct{ Check, Level, Found, Why, Mend string }
	Lookups  []struct {
		Table, Host, Error string
		Milliseconds       float64
	}
	Counts map[string]int
}

// faults returns the findings that are not ok, in the form level check: found → mend.
func (r *doctorReport) faults() []string {
	faults := []string{}
	for _, f := range r.Findings {
		if f.Level != "ok" {
			faults = append(faults, f.Level+" "+f.Check+": "+f.Found+" → "+f.Mend)
		}
	}
	return faults
}

// examine runs qosproxy doctor and returns its exit code and output.
func examine(t *testing.T, binary, yaml string, args ...string) (int, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "qosproxy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	out, err := exec.CommandContext(t.Context(), binary, append([]string{"doctor", "--config", file}, args...)...).Output()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed {
		require.NoError(t, err)
		return 0, string(out)
	}
	assert.Equal(t, 1, strings.Count(string(exit.Stderr), "\n"), "one line on stderr: %s", exit.Stderr)
	return exit.ExitCode(), string(out)
}

// testDoctor plants faults in a configuration and in tables, and checks that qosproxy doctor finds
// each. The cluster has three nodes in datacenter dc1, which refuse NODE_LOCAL and have a dynamic
// snitch, as by default.
func testDoctor(t *testing.T, binary string, cluster *devcluster.Cluster, client *cassandra.Client) {
	define(t, client,
		"CREATE KEYSPACE doctor WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
		"CREATE KEYSPACE doctor_alone WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
		"CREATE KEYSPACE doctor_two WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2}",
		"CREATE KEYSPACE doctor_five WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 5}",
		"CREATE TABLE doctor.hedged (id text PRIMARY KEY, v text) WITH speculative_retry = '99p'",
		"CREATE TABLE doctor.waiting (id text PRIMARY KEY, v text) WITH speculative_retry = 'NONE'",
		"CREATE TABLE doctor.pairs (a text, b int, v text, PRIMARY KEY ((a, b))) WITH speculative_retry = '99p'",
		"CREATE TABLE doctor_alone.hedged (id text PRIMARY KEY, v text) WITH speculative_retry = '99p'",
		"CREATE TABLE doctor_two.pairs (id text PRIMARY KEY, v text) WITH speculative_retry = '99p'",
		"CREATE TABLE doctor_five.hedged (id text PRIMARY KEY, v text) WITH speculative_retry = '99p'",
	)
	execute(t, client, "INSERT INTO doctor.hedged (id, v) VALUES ('a', 'b')", "INSERT INTO doctor.pairs (a, b, v) VALUES ('a', 1, 'c')")
	config := func(points, dc, tables string) string {
		return fmt.Sprintf("cassandra: {contact_points: [%s], local_dc: %s, local_rack: rack1, connect_timeout: 1s}\ndefaults: {timeout: 2s}\ntables: [%s]\n", points, dc, tables)
	}
	points := strings.Join(cluster.ContactPoints(), ", ")
	const tables = "{name: doctor.hedged}, {name: doctor.pairs, consistency: LOCAL_QUORUM}"
	good := config(points, "dc1", tables)

	t.Run("a good cluster has no fault", func(t *testing.T) {
		code, out := examine(t, binary, good, "-o", "json")
		report := new(doctorReport)
		require.NoError(t, json.Unmarshal([]byte(out), report), out)
		assert.Empty(t, report.faults())
		assert.Equal(t, 0, code)
		assert.Equal(t, "dc1", report.LocalDC)
		assert.Len(t, report.Lookups, 6, "one of each table by each replica")
		for _, l := range report.Lookups {
			assert.Positive(t, l.Milliseconds, l.Host+l.Error)
		}

		code, out = examine(t, binary, good)
		assert.Equal(t, 0, code)
		for line := range strings.Lines(out) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
		}
		assert.Contains(t, out, "\n0 problems, 0 warnings, 0 notes, ")
	})

	for name, fault := range map[string]struct {
		yaml string
		want string
		mend string
	}{
		"a wrong local_dc": {config(points, "dc9", tables), "problem datacenter: no node is in local_dc dc9", "cassandra.local_dc: dc1"},
		"a wrong local_rack": {strings.Replace(good, "local_rack: rack1", "local_rack: rock1", 1),
			"warning datacenter: no node of dc1 is in local_rack rock1", "cassandra.local_rack: rack1"},
		"a contact point that nobody listens at": {config(points+", 127.0.0.99", "dc1", tables),
			"warning connection: the contact point 127.0.0.99:9042 does not answer: connection refused", "cassandra.contact_points"},
		"no contact point": {config("127.0.0.99", "dc1", tables), "problem connection: no contact point answers", "cassandra.contact_points"},
		"a table that is misspelt": {config(points, "dc1", tables+", {name: doctor.pears}"),
			"problem tables: there is no table doctor.pears", "doctor.pairs"},
		"a column that is misspelt": {config(points, "dc1", "{name: doctor.pairs, consistency: LOCAL_QUORUM, columns: [a, b, w]}"),
			"problem tables: doctor.pairs has no column w", "w"},
		"one replica": {config(points, "dc1", "{name: doctor_alone.hedged}"),
			"warning replication: keyspace doctor_alone has the replication factor 1", "ALTER KEYSPACE doctor_alone"},
		"a quorum that is all replicas": {config(points, "dc1", "{name: doctor_two.pairs, consistency: LOCAL_QUORUM}"),
			"warning replication: keyspace doctor_two has 2 replicas, of which LOCAL_QUORUM needs 2", "ALTER KEYSPACE doctor_two"},
		"more replicas than nodes": {config(points, "dc1", "{name: doctor_five.hedged}"),
			"warning replication: keyspace doctor_five has the replication factor 5, and dc1 has 3 nodes", "ALTER KEYSPACE doctor_five"},
		"a table without speculation at a quorum": {config(points, "dc1", "{name: doctor.waiting, consistency: LOCAL_QUORUM}"),
			"problem speculation: doctor.waiting is read at LOCAL_QUORUM through coordinators", "ALTER TABLE doctor.waiting WITH speculative_retry = '99p';"},
		"a table without speculation whose replicas may ask each other": {config(points, "dc1", "{name: doctor.waiting}"),
			"dynamic_snitch is on, and speculative_retry is NONE for doctor.waiting", "dynamic_snitch: false; or ALTER TABLE doctor.waiting WITH speculative_retry = '99p';"},
		"nodes that refuse NODE_LOCAL": {config(points, "dc1", "{name: doctor.waiting, consistency: NODE_LOCAL}"),
			"warning node_local: 127.0.0.1:9042, 127.0.0.2:9042, 127.0.0.3:9042: NODE_LOCAL is refused", "enable_nodelocal_queries"},
		"nodes that may ask others": {config(points, "dc1", "{name: doctor.waiting, consistency: LOCAL_QUORUM, quorum_reads: replicas}"),
			"warning quorum_reads: 127.0.0.1:9042, 127.0.0.2:9042, 127.0.0.3:9042 cannot be made to answer", "dynamic_snitch: false"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := examine(t, binary, fault.yaml, "-o", "json")
			report := new(doctorReport)
			require.NoError(t, json.Unmarshal([]byte(out), report), out)
			faults := report.faults()
			if assert.Len(t, faults, 1) {
				assert.Contains(t, faults[0], fault.want)
				assert.Contains(t, report.Findings[0].Mend, fault.mend)
			}
			assert.Equal(t, strings.HasPrefix(fault.want, "note"), code == 0, "exit %d", code)
		})
	}

	t.Run("a node that is frozen", func(t *testing.T) {
		victim := cluster.Nodes()[2]
		direct := connect(t, victim.IP())
		require.NoError(t, victim.Pause())
		code, out := examine(t, binary, good, "-o", "json")
		require.NoError(t, victim.Resume())
		awaitAnswer(t, direct)
		report := new(doctorReport)
		require.NoError(t, json.Unmarshal([]byte(out), report), out)
		assert.Equal(t, 1, code)
		// Coordinators may have asked it for a row, too.
		assert.Contains(t, strings.Join(report.faults(), "\n"), "warning nodes: "+victim.Addr()+" (rack rack1) cannot be reached: ")
	})

	code, _ := examine(t, binary, "cassandra: {local_cd: dc1}\n")
	assert.Equal(t, 2, code, "a mistake in the file is wrong usage")
}
