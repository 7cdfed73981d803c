package qosproxy

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Lookup asks for the rows of many partitions of one table.
type Lookup struct {
	// Table is keyspace.table, with the names as Cassandra stores them: unquoted, case preserved.
	Table string
	// Keys are the keys to read, at least one. A key may be listed more than once: it is read
	// once and answered at each position.
	Keys []Key
	// Where are conditions on the clustering columns after those that the keys name; only rows
	// that meet all conditions are returned. CQL's rules apply: the columns are consecutive, and
	// no condition may follow a range.
	Where []Condition
	// Reverse returns the rows of a key from the last to the first.
	Reverse bool
	// Columns are the columns to return, in this order; empty means all that the client may read.
	// writetime(name) and ttl(name) are allowed for a column that is not part of the primary key
	// and whose value is a single cell.
	Columns []string
	// LimitPerKey is the largest number of rows to return for one key. 0 returns all rows, up to
	// the limit of the table; a key with more rows is TooLarge.
	LimitPerKey int
	// Paging returns the rows of a key in pages of LimitPerKey, or fewer if the answer has no
	// room for more. Client.Pages requests the pages one after another.
	Paging bool
	// PageTokens are where each key continues, by position: the Result.NextPageToken of the
	// previous page, from a lookup with the same Reverse, or empty for the first page. Without
	// tokens every key begins at its first page. They require Paging.
	PageTokens []string
	// Consistency is a consistency level by its CQL name, one of those that the table allows;
	// empty means the default of the table.
	Consistency string
	// Timeout bounds the lookup in addition to the deadline of its context; 0 sets no bound.
	Timeout time.Duration
	// SoftDeadline is the time from the start of the lookup after which the proxy answers as soon
	// as MinKeys keys are answered, without waiting for the others. 0 waits for every key.
	SoftDeadline time.Duration
	// MinKeys is how many keys must be answered before the soft deadline can end the lookup; 0
	// means 1. Optional keys do not count, unless all keys are optional.
	MinKeys int
	// Optional are the positions of keys that the caller can do without: they are shed first
	// under load.
	Optional []int
	// CQL returns cells as Cassandra's own bytes, for Scan of package cql or for callers that
	// decode them themselves. It saves the proxy a little work.
	CQL bool
}

// Get makes a lookup and waits for its whole answer. The error is an *Error. If it is nil, at
// least one key was answered, and Answer.Err reports whether all were.
func (c *Client) Get(ctx context.Context, l Lookup) (*Answer, error) {
	in, err := l.request()
	if err != nil {
		return nil, err
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	out, err := c.api.BatchGet(ctx, in)
	if err == nil && len(out.GetResults()) != len(l.Keys) {
		err = status.Error(codes.Internal, errShort.Error())
	}
	if err != nil {
		return nil, newError(err, l.Keys)
	}
	return newAnswer(out, l.Keys), nil
}

// within returns a context that ends with the timeout of the lookup, which bounds all attempts
// together.
func (l *Lookup) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.Timeout)
}

// request returns the lookup as a message to the proxy.
func (l *Lookup) request() (*qosproxyv1.BatchGetRequest, error) {
	keyspace, table, ok := strings.Cut(l.Table, ".")
	if !ok {
		return nil, errInvalid("Table is %q; write keyspace.table", l.Table)
	}
	for _, n := range []struct {
		name string
		is   int
	}{{"LimitPerKey", l.LimitPerKey}, {"MinKeys", l.MinKeys}} {
		if n.is < 0 || n.is > math.MaxInt32 {
			return nil, errInvalid("%s is %d; it may be 0 to %d", n.name, n.is, math.MaxInt32)
		}
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
	for n, i := range l.Optional {
		if i < 0 || i >= len(l.Keys) {
			return nil, errInvalid("Optional[%d] is %d; positions of %d keys are 0 to %d", n, i, len(l.Keys), len(l.Keys)-1)
		}
		in.OptionalKeys = append(in.OptionalKeys, int32(i))
	}
	return in, nil
}

// durationOf returns a duration for the wire, where 0 is left unset.
func durationOf(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// Condition restricts a clustering column. The proxy refuses the zero Condition. Each value is a
// Value or a Go value that ValueOf converts; one that it cannot convert fails the lookup.
type Condition struct {
	proto *qosproxyv1.Condition
	err   error
}

// Equal is met by rows in which the column equals value.
func Equal(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_EQUAL, value)
}

// In is met by rows in which the column equals one of values. At least one is required.
func In(column string, values ...any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_IN, values...)
}

// Greater is met by rows in which the column is greater than value.
func Greater(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_GREATER, value)
}

// AtLeast is met by rows in which the column is greater than or equal to value.
func AtLeast(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_GREATER_OR_EQUAL, value)
}

// Less is met by rows in which the column is less than value.
func Less(column string, value any) Condition {
	return condition(column, qosproxyv1.Operator_OPERATOR_LESS, value)
}

// AtMost is met by rows in which the column is less than or equal to value.
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

// Key selects the rows of one partition, or those of its rows that begin with given clustering
// values. The zero Key is refused.
type Key struct {
	proto *qosproxyv1.Key
	err   error
}

// NewKey returns a key with one component for each partition key column, in key order. It may be
// followed by components for leading clustering columns, in clustering order. Each component is a
// Value, or a Go value that ValueOf converts; one that it cannot convert fails the lookup.
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

// Keys returns one key for each value, for tables with a single partition key column.
func Keys[T any](values ...T) []Key {
	keys := make([]Key, len(values))
	for i, v := range values {
		keys[i] = NewKey(v)
	}
	return keys
}

// Proto returns the key as the generated client expects it, or the error of a component.
func (k Key) Proto() (*qosproxyv1.Key, error) { return k.proto, k.err }
