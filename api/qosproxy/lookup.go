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
	// Keys say what to read, at least one. A key may be named more than once; it is read
	// once and answered each time.
	Keys []Key
	// Where are conditions on the clustering columns behind those that the keys name; only
	// rows that meet all of them are returned. By CQL's rules: the columns are neighbours,
	// and one behind a range has no condition.
	Where []Condition
	// Reverse returns the rows of a key from the last to the first.
	Reverse bool
	// Columns are the columns to return, in this order; empty means all that may be
	// read. Of a column that is no part of the primary key, and whose value is one cell,
	// writetime(name) and ttl(name) are columns, too.
	Columns []string
	// LimitPerKey is the most rows to return of one key; 0 means all, up to
	// the limit of the table, beyond which the key is TooLarge.
	LimitPerKey int
	// Paging returns the rows of a key in pages of LimitPerKey, or of what the answer has room
	// for. See Client.Pages, which asks for one after the other.
	Paging bool
	// PageTokens say where each key goes on, by position: Result.NextPageToken of the page
	// before, with the same Reverse, or empty for the first page. None at all begins every
	// key. Only with Paging.
	PageTokens []string
	// Consistency is the consistency level in CQL's words, among those that the table
	// allows; empty is that of the table.
	Consistency string
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
		Consistency: l.Consistency, Paging: l.Paging, PageTokens: l.PageTokens,
	}
	if l.Reverse {
		in.Order = qosproxyv1.Order_ORDER_REVERSE
	}
	for _, c := range l.Where {
		if c.err != nil {
			return nil, errInvalid("Where: column %q: %v", c.proto.GetColumn(), c.err)
		}
		in.Where = append(in.Where, c.proto)
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

// Condition restricts a clustering column. The zero Condition is refused by the proxy. Values
// are a Value each, or a Go value that ValueOf takes; one that it does not take fails the lookup.
type Condition struct {
	proto *qosproxyv1.Condition
	err   error
}

// Equal is met by rows whose column is the value.
func Equal(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_EQUAL, value)
}

// In is met by rows whose column is one of the values, of which there is at least one.
func In(column string, values ...any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_IN, values...)
}

// Greater is met by rows whose column is above the value.
func Greater(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_GREATER, value)
}

// AtLeast is met by rows whose column is the value or above it.
func AtLeast(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL, value)
}

// Less is met by rows whose column is below the value.
func Less(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_LESS, value)
}

// AtMost is met by rows whose column is the value or below it.
func AtMost(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_LESS_OR_EQUAL, value)
}

func condition(column string, operator qosproxyv1.Operator, values ...any) Condition {
	c := Condition{proto: &qosproxyv1.Condition{Column: column, Operator: operator}}
	for i, value := range values {
		v := ValueOf(value)
		if v.err != nil {
			c.err = fmt.Errorf("value %d: %w", i, v.err)
		}
		c.proto.Values = append(c.proto.Values, v.proto)
	}
	return c
}

// Key says which rows are asked for: those of one partition, or those of it that begin with some
// clustering values. The zero Key is refused.
type Key struct {
	proto *qosproxyv1.Key
	err   error
}

// NewKey returns the key of a value for each partition key column, in key order, and for as
// many clustering columns as it is to name, in clustering order.
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
