// Package report decides how a measurement is shown: which figures of its runs and rounds count, in
// which tables and charts, and in which forms for people and for programs.
package report

import "time"

// Report is the outcome of one measurement. Its JSON form has exactly these fields.
type Report struct {
	// Name is a short name, fit for a file name, such as targeting.
	Name string `json:"name"`
	// Title is one line that says what was compared.
	Title string `json:"title"`
	// Question says in plain sentences what the measurement was made to answer.
	Question string `json:"question,omitempty"`
	// Command is the command that repeats the measurement.
	Command string `json:"command"`
	// Time is when the measurement began.
	Time time.Time `json:"time"`
	// Seed is the seed of every random choice.
	Seed uint64 `json:"seed"`
	// Machine describes the machine on which it was made.
	Machine Machine `json:"machine"`
	// Cluster describes what was measured, such as "6 nodes, RF 3, 3 racks, 16 vnodes, Cassandra
	// 5.0.9".
	Cluster string `json:"cluster,omitempty"`
	// SLA is the target for latencies; nil when there is none.
	SLA *SLA `json:"sla,omitempty"`
	// Runs are the measured runs, in the order in which they are to be read.
	Runs []Run `json:"runs,omitempty"`
	// Tables are further figures.
	Tables []Table `json:"tables,omitempty"`
	// Charts are drawn in addition to those that every report with runs has.
	Charts []Chart `json:"charts,omitempty"`
	// Findings are the conclusions from the figures, one sentence each.
	Findings []Finding `json:"findings,omitempty"`
	// Notes say what a reader must know to judge the figures, such as how noisy they are.
	Notes []string `json:"notes,omitempty"`
}

// Machine describes where a measurement was made.
type Machine struct {
	// CPUs is the number of CPUs, GOMAXPROCS of the client.
	CPUs int `json:"cpus"`
	// MemoryBytes is the memory of the machine; 0 when unknown.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Model is the name of the processor; empty when unknown.
	Model string `json:"model,omitempty"`
	// Go is the version of Go and OS the operating system and architecture.
	Go string `json:"go"`
	OS string `json:"os"`
}

// SLA is a target for a percentile of latency.
type SLA struct {
	// Percentile is above 0 and below 100, such as 95.
	Percentile float64 `json:"percentile"`
	// TargetSeconds is the latency that the percentile must not exceed, in seconds.
	TargetSeconds float64 `json:"target_seconds"`
}

// Run is one target under one condition, measured for some rounds.
type Run struct {
	// Target is the name of the contender, such as proxy-grpc or in-unpaged.
	Target string `json:"target"`
	// Condition distinguishes runs of the same target, such as "LOCAL_QUORUM, 256 vnodes"; empty when
	// there is one condition.
	Condition string `json:"condition,omitempty"`
	// Rounds are the measured rounds in order of time, without warm-up; at least one.
	Rounds []Round `json:"rounds"`
}

// Round is one measured period of a run.
type Round struct {
	// Start is when the round began and Seconds how long it lasted.
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	// OfferedRate is the arrival rate of an open loop in lookups per second, 0 in a closed one.
	// Concurrency is the number of callers of a closed loop, 0 in an open one.
	OfferedRate float64 `json:"offered_rate,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
	// KeysPerLookup is the mean number of keys of a lookup, rounded.
	KeysPerLookup int `json:"keys_per_lookup"`
	// Counts says how the lookups ended.
	Counts Counts `json:"counts"`
	// Latency is the latency of all lookups, including failed ones. In an open loop it counts from
	// when a lookup was due, so that a stall counts for every lookup that would have met it.
	Latency Latency `json:"latency"`
	// PerLookup is the mean cost of a lookup.
	PerLookup Cost `json:"per_lookup"`
	// NodeCPUMillis is the CPU time per lookup of each Cassandra node without its compilers, in
	// milliseconds, by address; nil when it was not measured.
	NodeCPUMillis map[string]float64 `json:"node_cpu_ms,omitempty"`
}

// Counts says how the lookups of a round ended, and how their rows differ from what was written. A
// lookup counts once, in OK, Partial or Failed; keys and rows are counted separately.
type Counts struct {
	// Lookups is how many were made. OK had an answer for every key, Partial for some; Failed had none
	// or ended in an error.
	Lookups int64 `json:"lookups"`
	OK      int64 `json:"ok"`
	Partial int64 `json:"partial"`
	Failed  int64 `json:"failed"`
	// Late is how many took longer than the SLA's target.
	Late int64 `json:"late"`
	// Right had an answer for every key and no wrong or missing row; Good was in time as well. They
	// are not written to JSON.
	Right int64 `json:"-"`
	Good  int64 `json:"-"`
	// FailedKeys is the number of keys that were not answered.
	FailedKeys int64 `json:"failed_keys"`
	// MissingKeys is the number of written keys that were not found; WrongRows is the number of rows
	// that differ from what was written, are absent, or were never written.
	MissingKeys int64 `json:"missing_keys"`
	WrongRows   int64 `json:"wrong_rows"`
	// Errors counts lookups by the text of their error, ten texts at most and "other" for the rest.
	Errors map[string]int64 `json:"errors,omitempty"`
	// BadAt is when the first lookups that were not good ended, in seconds since the round began; at
	// most 20. It is not written to JSON.
	BadAt []float64 `json:"-"`
}

// Latency is a distribution in seconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	// Curve is the distribution for drawing: ascending quantiles from 0 to 1.
	Curve []Quantile `json:"curve,omitempty"`
	// Samples are all latencies, ascending, so that several rounds can be merged; nil when unknown.
	// They are not written to JSON.
	Samples []Sample `json:"-"`
}

// Sample is a latency and how often it occurred.
type Sample struct {
	// Micros is the latency in microseconds, to three digits; Count is at least 1.
	Micros, Count int64
}

// Quantile is a point of a distribution: the share Q of the lookups, 0 to 1, took at most Seconds.
type Quantile struct {
	Q       float64 `json:"q"`
	Seconds float64 `json:"s"`
}

// Cost is the mean cost of one lookup. A figure that does not apply or was not measured is nil.
type Cost struct {
	// CassandraCPUMillis is the CPU time of all nodes without their JIT compilers, and
	// CompilerCPUMillis that of the compilers: a node that has run for a while no longer compiles.
	// ProxyCPUMillis is that of the proxy, nil for targets without one, and ClientCPUMillis that of
	// the load generator. All are in milliseconds.
	CassandraCPUMillis *float64 `json:"cassandra_cpu_ms,omitempty"`
	CompilerCPUMillis  *float64 `json:"compiler_cpu_ms,omitempty"`
	ProxyCPUMillis     *float64 `json:"proxy_cpu_ms,omitempty"`
	ClientCPUMillis    *float64 `json:"client_cpu_ms,omitempty"`
	// SubQueries is the number of attempts, Hedges and Failovers those of them that are hedges and
	// fail-overs.
	SubQueries *float64 `json:"sub_queries,omitempty"`
	Hedges     *float64 `json:"hedges,omitempty"`
	Failovers  *float64 `json:"failovers,omitempty"`
	// ProxyAllocBytes and ClientAllocBytes are the bytes allocated on the heap.
	ProxyAllocBytes  *float64 `json:"proxy_alloc_bytes,omitempty"`
	ClientAllocBytes *float64 `json:"client_alloc_bytes,omitempty"`
}

// Table is a table of figures.
type Table struct {
	// Title says what the rows are.
	Title string `json:"title"`
	// Columns are the heads and Rows the cells, as many in each row as there are columns. A column
	// that has only numbers is aligned to the right.
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Chart is a chart to be drawn.
type Chart struct {
	// Name is short and fit for a file name; Title is one line.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Kind says how the chart is drawn.
	Kind ChartKind `json:"kind"`
	// X labels the points of every series: the groups of bars, or the x values of a line.
	X []string `json:"x"`
	// XScale is the scale of a line's x axis; bars are always categories.
	XScale Scale `json:"x_scale,omitempty"`
	// XName is the name of the x axis, with the unit.
	XName string `json:"x_name,omitempty"`
	// YName is the name of the y axis. Its unit comes after a comma: "CPU per lookup, ms".
	YName string `json:"y_name"`
	// LogY draws the y axis logarithmically.
	LogY bool `json:"log_y,omitempty"`
	// Min and Max are values that the y axis must include, so that charts side by side are comparable;
	// 0 leaves the range to the figures.
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
	// Line is a value that is marked across the chart, such as the SLA; nil for none.
	Line *Mark `json:"line,omitempty"`
	// Series are drawn side by side, in order.
	Series []Series `json:"series"`
}

// ChartKind is how a chart is drawn.
type ChartKind string

// The kinds of charts.
const (
	// Bars draws a bar for each point of each series, side by side.
	Bars ChartKind = "bars"
	// Stacked draws the series of each point on top of one another, in one bar. Low and High of a
	// series are those of the sum up to it.
	Stacked ChartKind = "stacked"
	// Lines draws a line through the points of each series.
	Lines ChartKind = "lines"
)

// Scale is the scale of an x axis.
type Scale string

// The scales of x.
const (
	// Categories places the points side by side, in order.
	Categories Scale = ""
	// Linear and Log read X as numbers, which must be above 0 for Log.
	Linear Scale = "linear"
	Log    Scale = "log"
	// Nines reads X as quantiles from 0 to 1 and gives each further nine the same width: 90 %, 99 %,
	// 99.9 %. A quantile of 1 is left out.
	Nines Scale = "nines"
)

// Mark is a value marked across a chart.
type Mark struct {
	// Name says what the value is.
	Name string `json:"name"`
	// Value is the position on the y axis.
	Value float64 `json:"value"`
}

// Series is one line, or the bars of one colour.
type Series struct {
	// Name is the name in the legend.
	Name string `json:"name"`
	// Values has one value for each X of the chart; nil where there is none.
	Values []*float64 `json:"values"`
	// Low and High are the least and greatest of the rounds. They are empty when unknown, otherwise as
	// long as Values.
	Low  []*float64 `json:"low,omitempty"`
	High []*float64 `json:"high,omitempty"`
}

// Finding is a claim that a figure supports or contradicts.
type Finding struct {
	// Claim is the claim, such as "cluster CPU per lookup: proxy-grpc ≤ 1/6 of in".
	Claim string `json:"claim"`
	// Seen is the figure, such as "0.14 (0.13–0.15)".
	Seen string `json:"seen"`
	// Holds is whether the figure supports the claim.
	Holds bool `json:"holds"`
}

// CassandraCPU returns the CPU milliseconds that all nodes spent in the round, and how many of them
// in their JIT compilers; 0 when they were not measured.
func (r *Round) CassandraCPU() (all, compiling float64) {
	compiler, rest := r.PerLookup.CompilerCPUMillis, r.PerLookup.CassandraCPUMillis
	if compiler == nil || rest == nil {
		return 0, 0
	}
	n := float64(r.Counts.Lookups)
	return (*compiler + *rest) * n, *compiler * n
}

// Compiling reports whether the nodes spent more than a twentieth of their CPU time in their JIT
// compilers. Nodes that have just been booted are many times slower until their code is compiled.
// It is false when the CPU time was not measured.
func (r *Round) Compiling() bool {
	all, compiling := r.CassandraCPU()
	return compiling > all/20
}
