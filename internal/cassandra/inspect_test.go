package cassandra

import (
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/doctor"
	"github.com/qosproxy/qosproxy/internal/schema"
)

func TestAnInspectionTellsWhyNobodyAnswers(t *testing.T) {
	others := goleak.IgnoreCurrent()
	closed := closedPort(t)
	cfg := quiet(closed)
	cfg.ContactPoints = append(cfg.ContactPoints, "cassandra.invalid")
	found, err := Inspect(t.Context(), cfg, []doctor.Question{{Keyspace: "a", Table: "b", Rows: 1}})
	require.NoError(t, err)
	assert.Equal(t, &doctor.Cluster{Points: []doctor.Point{
		{Name: closed, Addrs: []string{closed}, Failure: "connection refused", Key: "cassandra.contact_points"},
		{Name: "cassandra.invalid:9042", Failure: "the name does not resolve", Key: "cassandra.contact_points"},
	}}, found)
	goleak.VerifyNone(t, others)

	cfg.ContactPoints = nil
	_, err = Inspect(t.Context(), cfg, nil)
	require.ErrorIs(t, err, ErrConfig)
}

func TestAClockIsAheadByWhatNoDelayExplains(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct{ moment, want int }{
		"within":                        {30, 0},
		"at the begin":                  {0, 0},
		"a moment without its fraction": {-1, 0},
		"at the end":                    {50, 0},
		"ahead":                         {750, 700},
		"behind":                        {-701, -700},
	} {
		assert.Equal(t, time.Duration(tc.want)*time.Millisecond, ahead(at(tc.moment), begin, at(50)), name)
	}
}

func TestTheMeanOfEstimatesIsWeighed(t *testing.T) {
	estimate := func(mean, partitions int64) row {
		return row{"mean_partition_size": mean, "partitions_count": partitions}
	}
	assert.EqualValues(t, 175, meanOf([]row{estimate(100, 3), estimate(400, 1)}))
	assert.Zero(t, meanOf([]row{estimate(100, 0)}))
	assert.Zero(t, meanOf(nil))
}

func TestAnInspectionKnowsARefusalByItsCode(t *testing.T) {
	assert.True(t, denied(fmt.Errorf("read: %w", answer{gocql.ErrCodeUnauthorized, "User reader has no SELECT permission"})))
	assert.False(t, denied(answer{gocql.ErrCodeInvalid, "unconfigured table"}))
	assert.False(t, denied(nil))
}

func TestAnInspectionReadsTheColumnsThatMayBeRead(t *testing.T) {
	text := &cqltype.Type{Kind: cqltype.Text}
	table := schema.NewTable("a", "b", "", []schema.Column{{Name: "id", Type: text, Kind: schema.PartitionKey}, {Name: "v", Type: text, Kind: schema.Regular}})
	names := func(columns ...string) (out []string) {
		for _, c := range readable(doctor.Question{Columns: columns}, table) {
			out = append(out, c.Name)
		}
		return out
	}
	assert.Equal(t, []string{"v"}, names("v", "w"))
	assert.Equal(t, []string{"id", "v"}, names())
	assert.Equal(t, []string{"id", "v"}, names("w"), "what is misspelt is told of by another check")
}
