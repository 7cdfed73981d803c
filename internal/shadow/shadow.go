// Package shadow decides whether the proxy answers as the plain driver does. A lookup is read
// both ways and compared row by row. What differs is read again before it counts, because rows
// may be written meanwhile. The package decides what counts as a difference, which percentiles
// a sample is large enough for, and how much of the live traffic is repeated. It depends on
// neither the driver nor the listeners.
package shadow

import (
	"context"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Answer is the answer of one side to a lookup.
type Answer struct {
	// Columns are the columns of every row, as this side names and types them; empty if it
	// returned no row.
	Columns []schema.Column
	// Results are the results of the keys of the request, by position.
	Results []partition.Result
	// Sent is how many statements the driver, or sub-queries the proxy, sent.
	Sent int
	// Elapsed is the time from the request to the last result.
	Elapsed time.Duration
}

// Path is one way to read a lookup. Read is called concurrently. Its error means that the
// lookup was refused as a whole; the failure of a single key is in the result of the key.
type Path interface {
	Read(ctx context.Context, req *lookup.Request) (*Answer, error)
}

// PathFunc makes a function a Path.
type PathFunc func(ctx context.Context, req *lookup.Request) (*Answer, error)

// Read calls f.
func (f PathFunc) Read(ctx context.Context, req *lookup.Request) (*Answer, error) { return f(ctx, req) }

// Side is one of the two sides that are compared.
type Side int

// The sides, in the order of reports.
const (
	DriverSide Side = iota
	ProxySide
)

// sides lists both sides.
var sides = [...]Side{DriverSide, ProxySide}

// String returns driver or proxy.
func (s Side) String() string { return [...]string{"driver", "proxy"}[s] }

// columnsOf returns the columns that a request asks for.
func columnsOf(req *lookup.Request) []schema.Column {
	if len(req.Columns) > 0 {
		return req.Columns
	}
	return req.Table.Columns
}

// Only returns a lookup of the keys at some positions of a request. Nothing ends it early: it
// must be complete, not fast.
func Only(req *lookup.Request, positions []int) *lookup.Request {
	again := &lookup.Request{
		Table: req.Table, Slice: req.Slice, Columns: req.Columns, LimitPerKey: req.LimitPerKey, Consistency: req.Consistency,
		Keys: make([]partition.Key, len(positions)),
	}
	for i, p := range positions {
		again.Keys[i] = req.Keys[p]
	}
	return again
}
