// Package report decides how a measurement is shown: which figures of its runs and
// rounds count, in which tables and charts, and in which forms for people and
// programs.
package report

import "time"

// Report is the outcome of one measurement. It is written as JSON as it stands.
type Report struct {
	// Name is a short name fit for a file, such as targeting.
	Name string `json:"name"`
	// Title is one line that says what was compared.
	Title string `json:"title"`
	// Question is what the measurement was made to answer, in plain sentences.
	Question string `json:"question,omitempty"`
	// Command repeats the measurement.
	Command string `json:"command"`
	// Time is when it began.
	Time time.Time `json:"time"`
	// Seed is the seed of every random choice.
	Seed uint64 `json:"seed"`
	// Machine says where it was made.
	Machine Machine `json:"machine"`
	// Cluster says in words what was measured, such as "6 nodes, RF 3, 3 racks, 16
	// vnodes, Cassandra 5.0.9".
	Cluster string `json:"cluster,omitempty"`
	// SLA is what latencies are held against; nil when there is none.
	SLA *SLA `json:"sla,omitempty"`
	// Runs are the measured runs, in the order in which they are to be read.
	Runs []Run `json:"runs,omitempty"`
	// Tables are further figures.
	Tables []Table `json:"tables,omitempty"`
	// Charts are drawn besides those that every report with runs has.
	Charts []Chart `json:"charts,omitempty"`
	// Findings are what the figures say, one sentence each.
	Findings []Finding `json:"findings,omitempty"`
	// Notes say what a reader must know to judge the figures, such as the noise.
	Notes []string `json:"notes,omitempty"`
}

// Machine is where a measurement was made.
type Machine struct {
	// CPUs is how many there are, GOMAXPROCS of the client.
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
	// TargetSeconds is the latency which the percentile must not exceed.
	TargetSeconds float64 `json:"target_seconds"`
}

// Run is one target under one condition, measured for some rounds.
type Run struct {
	// Target is what was driven: proxy-grpc, proxy-http, in, in-unpaged, single,
	// grouped.
	Target string `json:"target"`
	// Condition tells runs of the same target apart, such as "LOCAL_QUORUM, 256
	// vnodes"; empty when there is one condition.
	Condition string `json:"condition,omitempty"`
	// Rounds are the measured rounds in time order, warm-up left out; at least one.
	Rounds []Round `json:"rounds"`
}

// Round is one measured stretch of time of a run.
type Round struct {
	// Start is when it began and Seconds how long it took.
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	// OfferedRate is the arrival rate in lookups per second of an open loop, 0 in a
	// closed one; Concurrency the number of callers of a closed loop, 0 in an open
	// one.
	OfferedRate float64 `json:"offered_rate,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
	// KeysPerLookup is how many keys a lookup asked for.
	KeysPerLookup int `json:"keys_per_lookup"`
	// Counts says how the lookups ended.
	Counts Counts `json:"counts"`
	// Latency is that of every lookup, failed ones included, in an open loop from
	// the intended start, so that a stall counts for all who would have met it.
	Latency Latency `json:"latency"`
	// PerLookup is what a lookup cost on average.
	PerLookup Cost `json:"per_lookup"`
	// NodeCPUMillis is the CPU time of each node of Cassandra per lookup in
	// milliseconds, by address; nil when the nodes cannot be seen.
	NodeCPUMillis map[string]float64 `json:"node_cpu_ms,omitempty"`
}

// Counts says how the lookups of a round ended, and what the check of their rows
// against what was written found. A lookup is counted once in OK, Partial or
// Failed; keys and rows are counted apart.
type Counts struct {
	// Lookups is how many were made; OK had an answer for every key; Partial for
	// some; Failed for none or ended in an error.
	Lookups int64 `json:"lookups"`
	OK      int64 `json:"ok"`
	Partial int64 `json:"partial"`
	Failed  int64 `json:"failed"`
	// Late is how many took longer than the target of the SLA.
	Late int64 `json:"late"`
	// Right had an answer for every key and no wrong or missing row, and Good was in time
	// besides. They are not written.
	Right int64 `json:"-"`
	Good  int64 `json:"-"`
	// FailedKeys were answered with neither rows nor the word of a replica that
	// there are none.
	FailedKeys int64 `json:"failed_keys"`
	// MissingKeys were written and are said not to be there; WrongRows differ from
	// what was written, or were never written.
	MissingKeys int64 `json:"missing_keys"`
	WrongRows   int64 `json:"wrong_rows"`
	// Errors are the texts of errors with their counts, at most ten.
	Errors map[string]int64 `json:"errors,omitempty"`
	// BadAt is when the first lookups ended that were not good, in seconds since the round began;
	// at most 20. It is not written.
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
	// Curve is the distribution for drawing: ascending quantiles, 0 to 1.
	Curve []Quantile `json:"curve,omitempty"`
	// Samples are all latencies, ascending, so that those of several rounds can be
	// merged; nil when unknown. They are not written.
	Samples []Sample `json:"-"`
}

// Sample is how often a latency was seen.
type Sample struct {
	// Micros is the latency in microseconds, to three digits; Count is at least 1.
	Micros, Count int64
}

// Quantile is a point of a distribution: a share of Q, 0 to 1, took at most
// Seconds.
type Quantile struct {
	Q       float64 `json:"q"`
	Seconds float64 `json:"s"`
}

// Cost is what one lookup cost on average. A figure that does not apply or
// cannot be seen is nil.
type Cost struct {
	// CassandraCPUMillis is the CPU time of all nodes without that of their JVMs'
	// compilers, which is CompilerCPUMillis: a node that has run for a while compiles
	// no more. ProxyCPUMillis is that of the proxy and ClientCPUMillis that of the
	// load generator; all in milliseconds. For grouped, which plans in the client, the
	// proxy's is nil.
	CassandraCPUMillis *float64 `json:"cassandra_cpu_ms,omitempty"`
	CompilerCPUMillis  *float64 `json:"compiler_cpu_ms,omitempty"`
	ProxyCPUMillis     *float64 `json:"proxy_cpu_ms,omitempty"`
	ClientCPUMillis    *float64 `json:"client_cpu_ms,omitempty"`
	// SubQueries were sent to nodes, of which Hedges because a group was late and
	// Failovers because one failed.
	SubQueries *float64 `json:"sub_queries,omitempty"`
	Hedges     *float64 `json:"hedges,omitempty"`
	Failovers  *float64 `json:"failovers,omitempty"`
	// ProxyAllocBytes and ClientAllocBytes are allocated on the heap.
	ProxyAllocBytes  *float64 `json:"proxy_alloc_bytes,omitempty"`
	ClientAllocBytes *float64 `json:"client_alloc_bytes,omitempty"`
}

// Table is a table of figures.
type Table struct {
	// Title says what the rows are.
	Title string `json:"title"`
	// Columns are the heads, Rows the cells, each as long as Columns. A cell that is
	// a number is aligned to the right.
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Chart is a chart to be drawn.
type Chart struct {
	// Name is short and fit for a file; Title one line.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Kind is how it is drawn.
	Kind ChartKind `json:"kind"`
	// X labels the points of every series (the bars, or the x of a line).
	X []string `json:"x"`
	// XScale says where the points of a line stand; bars are always categories.
	XScale Scale `json:"x_scale,omitempty"`
	// XName and YName name the axes, with the unit.
	XName string `json:"x_name,omitempty"`
	// The unit of YName comes after a comma: "CPU per lookup, ms".
	YName string `json:"y_name"`
	// LogY draws the y axis logarithmically.
	LogY bool `json:"log_y,omitempty"`
	// Min and Max are values which the y axis must reach, so that charts side by
	// side compare; 0 leaves it to the figures.
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
	// Line is a value to be marked across, such as the SLA; nil for none.
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
	// Stacked draws the series of each point onto one another, in one bar. Low and
	// High of a series are those of the sum up to it.
	Stacked ChartKind = "stacked"
	// Lines draws a line through the points of each series.
	Lines ChartKind = "lines"
)

// Scale is where the points of a line stand.
type Scale string

// The scales of x.
const (
	// Categories stand side by side in order.
	Categories Scale = ""
	// Linear and Log take X as numbers, Log as numbers above 0.
	Linear Scale = "linear"
	Log    Scale = "log"
	// Nines takes X as quantiles from 0 to 1 and gives each further nine the same
	// room: 90 %, 99 %, 99.9 %. A quantile of 1 is left out.
	Nines Scale = "nines"
)

// Mark is a value marked across a chart.
type Mark struct {
	// Name says what the value is.
	Name string `json:"name"`
	// Value is on the y axis.
	Value float64 `json:"value"`
}

// Series is one line, or the bars of one colour.
type Series struct {
	// Name is what the legend says.
	Name string `json:"name"`
	// Values are as many as the chart's X; nil where there is none.
	Values []*float64 `json:"values"`
	// Low and High are the least and greatest of the rounds, where known: empty, or
	// as long as Values.
	Low  []*float64 `json:"low,omitempty"`
	High []*float64 `json:"high,omitempty"`
}

// Finding is a sentence that a figure supports or contradicts.
type Finding struct {
	// Claim is what was to be shown, such as "cluster CPU per lookup: proxy-grpc ≤ 1/6
	// of in".
	Claim string `json:"claim"`
	// Seen is the figure, such as "0.14 (0.13–0.15)".
	Seen string `json:"seen"`
	// Holds says whether the figure meets the claim.
	Holds bool `json:"holds"`
}

// CassandraCPU returns the CPU milliseconds that all nodes spent in the round, and
// how many of them in their JVMs' compilers; 0 when the nodes cannot be seen.
func (r *Round) CassandraCPU() (all, compiling float64) {
	compiler, rest := r.PerLookup.CompilerCPUMillis, r.PerLookup.CassandraCPUMillis
	if compiler == nil || rest == nil {
		return 0, 0
	}
	n := float64(r.Counts.Lookups)
	return (*compiler + *rest) * n, *compiler * n
}

// Compiling tells whether the nodes' JVMs spent more than a twentieth of their CPU
// time in their compilers: nodes that have just been booted are many times slower
// until their code is compiled. It is false when the nodes cannot be seen.
func (r *Round) Compiling() bool {
	all, compiling := r.CassandraCPU()
	return compiling > all/20
}
