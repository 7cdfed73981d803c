package qosproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Lookup asks for the rows of many partitions of one table.
type Lookup struct {
	// Table is keyspace.table as Cassandra stores the names: unquoted, case
	// preserved.
	Table string
	// Keys are the partitions to read, at least one. A partition may be named more
	// than once; it is read once and answered each time.
	Keys []Key
	// Columns are the columns to return, in this order; empty means all that may be
	// read.
	Columns []string
	// LimitPerKey is the most rows to return of one partition; 0 means all, up to
	// the limit of the table, beyond which the key is TooLarge.
	LimitPerKey int
	// Timeout bounds the lookup besides the deadline of its context; 0 does not.
	Timeout time.Duration
	// SoftDeadline is when to answer if MinKeys keys are answered by then, from the
	// start of the lookup; with fewer it is answered as soon as they are. 0 waits for
	// every key.
	SoftDeadline time.Duration
	// MinKeys is how many keys must be answered for the lookup to end at its soft
	// deadline; 0 is 1. Optional keys do not count, unless all are optional.
	MinKeys int
	// Optional are positions of keys that the caller can do without: the first to be
	// shed under load.
	Optional []int
	// CQL returns cells as Cassandra's own bytes, for Scan of the package cql, or
	// for callers who decode them themselves. It spares the proxy a little work.
	CQL bool
}

// Get makes a lookup and waits for all of it. The error is an *Error; without one,
// some key was answered, and Answer.Err tells whether all were.
func (c *Client) Get(ctx context.Context, l Lookup) (*Answer, error) {
	in, err := l.request()
	if err != nil {
		return nil, err
	}
	out, err := c.api.BatchGet(ctx, in)
	if err == nil && len(out.GetResults()) != len(l.Keys) {
		err = status.Error(codes.Internal, errShort.Error())
	}
	if err != nil {
		return nil, newError(err, l.Keys)
	}
	return newAnswer(out, l.Keys), nil
}

// request words the lookup as the proxy takes it.
func (l *Lookup) request() (*qosproxyv1.BatchGetRequest, error) {
	keyspace, table, ok := strings.Cut(l.Table, ".")
	if !ok {
		return nil, errInvalid("Table is %q; write keyspace.table", l.Table)
	}
	in := &qosproxyv1.BatchGetRequest{
		Keyspace: keyspace, Table: table, Columns: l.Columns, LimitPerKey: int32(l.LimitPerKey), MinKeys: int32(l.MinKeys),
		Timeout: durationOf(l.Timeout), SoftDeadline: durationOf(l.SoftDeadline), Keys: make([]*qosproxyv1.Key, len(l.Keys)),
	}
	if l.CQL {
		in.Encoding = qosproxyv1.Encoding_ENCODING_CQL
	}
	for i, k := range l.Keys {
		if k.err != nil {
			return nil, errInvalid("Keys[%d]: %v", i, k.err)
		}
		in.Keys[i] = k.proto
		if k.proto == nil {
			in.Keys[i] = &qosproxyv1.Key{}
		}
	}
	for _, i := range l.Optional {
		in.OptionalKeys = append(in.OptionalKeys, int32(i))
	}
	return in, nil
}

// durationOf returns a duration for the wire; 0 is unset there.
func durationOf(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// Key is the partition key of one partition. The zero Key is refused.
type Key struct {
	proto *qosproxyv1.Key
	err   error
}

// NewKey returns the key of a value for each partition key column, in key order.
// Each is a Value, or a Go value that ValueOf takes; one that it does not take
// fails the lookup that uses the key.
func NewKey(components ...any) Key {
	k := Key{proto: &qosproxyv1.Key{Components: make([]*qosproxyv1.Value, len(components))}}
	for i, c := range components {
		v := ValueOf(c)
		if v.err != nil {
			k.err = fmt.Errorf("component %d: %w", i, v.err)
		}
		k.proto.Components[i] = v.proto
	}
	return k
}

// Keys returns a key for each of the values, of tables with a single partition key
// column.
func Keys[T any](values ...T) []Key {
	keys := make([]Key, len(values))
	for i, v := range values {
		keys[i] = NewKey(v)
	}
	return keys
}

// Proto returns the key as the generated client takes it, or why there is none.
func (k Key) Proto() (*qosproxyv1.Key, error) { return k.proto, k.err }
