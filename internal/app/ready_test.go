package app

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/cassandra"
)

func TestReadyMeansThatALookupWouldBeAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		status       cassandra.Status
		ring, schema bool
		want         string
	}{
		"nothing has come yet":             {want: "connecting to the cluster"},
		"the cluster says why not":         {status: cassandra.Status{Reason: "no node answered"}, ring: true, schema: true, want: "no node answered"},
		"the ring is missing":              {status: cassandra.Status{Ready: true}, schema: true, want: "the ring of the cluster is not known yet"},
		"the schema is missing":            {status: cassandra.Status{Ready: true}, ring: true, want: "the schema of the cluster is not known yet"},
		"both are there, and nodes answer": {status: cassandra.Status{Ready: true}, ring: true, schema: true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, notReady(test.status, test.ring, test.schema))
		})
	}
}
