// Package shadow decides whether the proxy answers as the plain driver does. A lookup is read
// both ways and compared row by row; what differs is read again before it counts, for rows may
// be written meanwhile. It decides what is a difference, which percentiles a sample can have,
// and how little of the live traffic is repeated; it knows neither driver nor listener.
package shadow

import (
	"context"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Answer is what one way of reading says to a lookup.
type Answer struct {
	// Columns are those of every row, as this way names and types them; empty if no row came.
	Columns []schema.Column
	// Results answer the keys of the request by position.
	Results []partition.Result
	// Sent is how many statements the driver, or sub-queries the proxy, has sent.
	Sent int
	// Elapsed is the time from the question to the last result.
	Elapsed time.Duration
}

// Path is one way to read a lookup. It is called concurrently. The error refuses the lookup
// as a whole; what befalls a key is in its result.
type Path interface {
	Read(ctx context.Context, req *lookup.Request) (*Answer, error)
}

// PathFunc makes a function a Path.
type PathFunc func(ctx context.Context, req *lookup.Request) (*Answer, error)

// Read calls f.
func (f PathFunc) Read(ctx context.Context, req *lookup.Request) (*Answer, error) { return f(ctx, req) }

// Side is one of the two that are compared.
type Side int

// The sides, in the order of reports.
const (
	DriverSide Side = iota
	ProxySide
)

// sides are all of them.
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

// Only returns the lookup of some keys of a request, by position, without what ends it early:
// it is asked again to know, and not to be quick.
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
