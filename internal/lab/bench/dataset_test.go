package bench

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/partition"
)

func dataset(t testing.TB, text string, seed uint64) *Dataset {
	t.Helper()
	d, err := NewDataset(parse(t, text), seed)
	require.NoError(t, err)
	return d
}

// rowsOf returns the rows of a partition as an honest target returns them.
func rowsOf(d *Dataset, l *Lookup, k int) []partition.Row {
	rows := make([]partition.Row, d.rows(l.Keys[k], l.kind.Limit))
	for r := range rows {
		for _, c := range l.kind.columns {
			rows[r] = append(rows[r], append([]byte{}, d.cell(nil, l.Keys[k], r, c)...))
		}
	}
	return rows
}

func TestVerifyTellsRightFromWrong(t *testing.T) {
	d := dataset(t, small, 7)
	kinds := d.resolve(d.Profile.Mix)
	w := newWorkload(d, kinds, 1)
	l := w.next()
	check := func(rows []partition.Row) Outcome {
		var o Outcome
		d.verify(&o, l, 0, len(rows), equalRaw(rows))
		return o
	}
	rows := rowsOf(d, l, 0)
	assert.Equal(t, Outcome{}, check(rows))
	assert.Equal(t, Outcome{Missing: 1}, check(nil), "a partition that is not there")
	assert.Equal(t, Outcome{Wrong: 1}, check(rows[:len(rows)-1]), "a row too few")
	assert.Equal(t, Outcome{Wrong: 1}, check(append(rows, rows[0])), "a row too many")
	for c := range rows[1] {
		rows[1][c][0] ^= 1
		assert.Equal(t, Outcome{Wrong: 1}, check(rows), "column %d of a row", c)
		rows[1][c][0] ^= 1
	}
	other := dataset(t, small, 8)
	rows = rowsOf(other, l, 0)
	assert.Equal(t, Outcome{Wrong: len(rows)}, check(rows), "the rows of another seed")

	// By full primary key a row is compared with itself.
	one := &Lookup{Keys: l.Keys, row: 1, kind: l.kind}
	rows = rowsOf(d, l, 0)
	ofRow := func(row int) Outcome {
		var o Outcome
		d.verify(&o, one, 0, 1, equalRaw(rows[row:]))
		return o
	}
	assert.Equal(t, Outcome{}, ofRow(1))
	assert.Equal(t, Outcome{Wrong: 1}, ofRow(0))
	assert.Len(t, d.protoKey(l.Keys[0], 1).GetComponents(), 1+len(d.protoKey(l.Keys[0], noRow).GetComponents()))

	never := &Lookup{Keys: []int{d.Profile.Partitions}, row: noRow, kind: kinds[0]}
	var o Outcome
	d.verify(&o, never, 0, 0, nil)
	assert.Equal(t, Outcome{}, o, "a key that was never written")
	d.verify(&o, never, 0, 1, nil)
	assert.Equal(t, Outcome{Wrong: 1}, o)
}

func TestEveryFormOfAValueIsTheSame(t *testing.T) {
	d := dataset(t, small, 7)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(d.columns).Draw(t, "column")
		cell := c.appendCell(nil, d.noise, rapid.Uint64().Draw(t, "number"))
		text := c.appendJSON(nil, cell)
		require.True(t, json.Valid(text), "%s", text)
		require.True(t, c.equalJSON(text, cell))
		require.True(t, c.equalProto(&qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: cell}}, cell))
		if c.Type == "text" || c.Type == "bigint" || c.Type == "uuid" {
			require.True(t, c.equalProto(c.protoValue(cell), cell))
		}
		other := append([]byte{}, cell...)
		other[rapid.IntRange(0, len(cell)-1).Draw(t, "byte")] ^= 1
		require.False(t, c.equalJSON(c.appendJSON(nil, other), cell))
		require.False(t, c.equalProto(&qosproxyv1.Value{Kind: &qosproxyv1.Value_Cql{Cql: other}}, cell))
	})
}

func TestDrawsFollowTheProfile(t *testing.T) {
	d := dataset(t, small, 7)
	d.Profile.Keys = Draw{Distribution: zipf, Exponent: 1.5, Unknown: 0.1}
	w, again := newWorkload(d, d.resolve(d.Profile.Mix), 1), newWorkload(d, d.resolve(d.Profile.Mix), 1)
	counts, unknown, all, large := map[int]int{}, 0, 0, 0
	for range 2000 {
		l := w.next()
		require.Equal(t, again.next(), l, "the same seed draws the same")
		seen := map[int]bool{}
		for _, k := range l.Keys {
			require.False(t, seen[k], "a key comes once")
			seen[k] = true
			counts[k]++
			if k >= d.Profile.Partitions {
				unknown++
			}
		}
		all += len(l.Keys)
		if len(l.Keys) == 20 {
			large++
		}
	}
	assert.InDelta(t, 0.1, float64(unknown)/float64(all), 0.01)
	assert.InDelta(t, 0.75, float64(large)/2000, 0.04, "weights of the mix")
	hottest := 0
	for _, n := range counts {
		hottest = max(hottest, n)
	}
	assert.Greater(t, hottest, 1500, "the hottest key is in most lookups")
}

func TestAKeyOfTwoColumnsIsSpeltAlikeEverywhere(t *testing.T) {
	d := dataset(t, "name: two\nkeyspace: ks\ntable: t\npartitions: 40\nkey_prefix: {name: tenant, type: text}\nkey: {name: id, type: bigint}\ncolumns: [{name: v, type: int}]\nmix: [{keys: 2}]\n", 7)
	for _, i := range []int{0, 17, 39, 59} {
		tenant, id := d.keys[i].cql.Components()[0], d.keys[i].cql.Components()[1]
		assert.Equal(t, fmt.Sprintf("tenant-%07d", i%prefixes), string(tenant))
		number := int64(binary.BigEndian.Uint64(id))
		assert.JSONEq(t, fmt.Sprintf(`[%q, %d]`, tenant, number), string(d.keys[i].json))
		assert.Equal(t, string(tenant), d.keys[i].proto.GetComponents()[0].GetText())
		assert.Equal(t, number, d.keys[i].proto.GetComponents()[1].GetBigint())
		assert.Equal(t, []any{string(tenant), number}, d.keyValues(i))
	}
	assert.Equal(t, "tenant = ? AND id", d.Profile.keyNames(" = ? AND "))
	_, err := (&Open{Data: d}).target(t.Context(), In)
	require.ErrorContains(t, err, "key_prefix")
}

func TestSamplesAreAllLatencies(t *testing.T) {
	tally := newTally(0)
	for n := range 100 {
		tally.add(&Outcome{}, 1, time.Duration(1+n%10)*time.Millisecond)
	}
	count, above := int64(0), int64(0)
	for _, s := range latency(tally.latencies).Samples {
		count += s.Count
		if s.Micros >= 9000 {
			above += s.Count
		}
	}
	assert.Equal(t, int64(100), count)
	assert.Equal(t, int64(20), above)
}
