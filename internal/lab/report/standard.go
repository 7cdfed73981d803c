package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// section is charts under a heading.
type section struct {
	Title  string
	Charts []Chart
}

// standard returns the charts that every report with runs has. Each condition has charts of its
// own, on common scales.
func (r *Report) standard() []section {
	curves := section{Title: "Latency by percentile"}
	bars := section{Title: "Latency by run"}
	cpu := section{Title: "CPU per lookup"}
	rounds := section{Title: "Round by round"}
	for i, group := range r.byCondition() {
		s := standardCharts{r: r, group: group, number: i + 1}
		curves.add(s.curve())
		bars.add(s.percentiles())
		cpu.add(s.cpu())
		rounds.add(s.rounds("rounds-p95", "p95 of each round", "p95, ms", P95))
		rounds.add(s.rounds("rounds-cpu", "CPU of Cassandra in each round", "CPU per lookup, ms", CassandraCPU))
	}
	var full []section
	for _, s := range []section{curves, bars, cpu, rounds} {
		if len(s.Charts) > 0 {
			full = append(full, s)
		}
	}
	return full
}

// add adds a chart unless it has no figures.
func (s *section) add(c Chart) {
	if len(c.Series) > 0 {
		s.Charts = append(s.Charts, c)
	}
}

// standardCharts draws the charts of one condition.
type standardCharts struct {
	r      *Report
	group  conditionRuns
	number int
}

// chart returns an empty chart. Its title has the condition, and its name too if there are several.
func (s *standardCharts) chart(name, title string) Chart {
	if s.group.Condition != "" {
		title += ": " + s.group.Condition
	}
	if len(s.r.byCondition()) > 1 {
		name = fmt.Sprintf("%s-%s", name, s.slug())
	}
	return Chart{Name: name, Title: title}
}

var notInFileNames = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns the condition in a form fit for a file name, or its number where that would be empty
// or the same as another's.
func (s *standardCharts) slug() string {
	fit := func(condition string) string {
		return strings.Trim(notInFileNames.ReplaceAllString(strings.ToLower(condition), "-"), "-")
	}
	slug := fit(s.group.Condition)
	for _, other := range s.r.byCondition() {
		if slug == "" || (other.Condition != s.group.Condition && fit(other.Condition) == slug) {
			return strconv.Itoa(s.number)
		}
	}
	return slug
}

// line returns a mark at the SLA's target in milliseconds, or nil.
func (s *standardCharts) line() *Mark {
	if s.r.SLA == nil {
		return nil
	}
	return &Mark{Name: s.r.SLA.String(), Value: 1000 * s.r.SLA.TargetSeconds}
}

// curve draws the latency over the quantile, a line for each run.
func (s *standardCharts) curve() Chart {
	c := s.chart("latency-curve", "Latency by percentile")
	c.Kind, c.XScale, c.XName, c.YName, c.LogY = Lines, Nines, "percentile", "latency, ms", true
	c.Line = s.line()
	c.Min, c.Max = s.r.bounds(func(r *Run) []Spread {
		var all []Spread
		for _, point := range r.Curve() {
			all = append(all, Spread{Min: 1000 * point.Seconds, Max: 1000 * point.Seconds, Rounds: 1})
		}
		return all
	})
	at := map[float64]int{}
	for _, run := range s.group.Runs {
		for _, point := range run.Curve() {
			if _, seen := at[point.Q]; !seen && point.Q < 1 {
				at[point.Q] = len(c.X)
				c.X = append(c.X, strconv.FormatFloat(point.Q, 'f', -1, 64))
			}
		}
	}
	for _, run := range s.group.Runs {
		values := make([]*float64, len(c.X))
		for _, point := range run.Curve() {
			if i, drawn := at[point.Q]; drawn && point.Q < 1 {
				ms := 1000 * point.Seconds
				values[i] = &ms
			}
		}
		if len(run.Curve()) > 0 {
			c.Series = append(c.Series, Series{Name: run.Target, Values: values})
		}
	}
	return c
}

// percentiles draws p50, p95 and p99 as bars for each run.
func (s *standardCharts) percentiles() Chart {
	c := s.chart("latency", "Latency by run, with the range of the rounds")
	c.Kind, c.YName, c.Line, c.X = Bars, "latency, ms", s.line(), s.targets()
	c.Min, c.Max = s.r.bounds(func(r *Run) []Spread { return []Spread{r.Merge(P50), r.Merge(P95), r.Merge(P99)} })
	// Bars have no meaningful length on a logarithmic axis, so it is the last resort.
	c.LogY = c.Max > 100*c.Min
	for _, f := range []struct {
		name   string
		figure Figure
	}{{"p50", P50}, {"p95", P95}, {"p99", P99}} {
		c.Series = append(c.Series, s.series(f.name, f.figure, f.figure))
	}
	return c
}

// cpu stacks the CPU time of Cassandra, proxy and client. The range is that of the sum.
func (s *standardCharts) cpu() Chart {
	c := s.chart("cpu", "CPU per lookup, with the range of the rounds")
	c.Kind, c.YName, c.X = Stacked, "CPU per lookup, ms", s.targets()
	_, c.Max = s.r.bounds(func(r *Run) []Spread { return []Spread{r.Merge(TotalCPU)} })
	for _, f := range []struct {
		name   string
		figure Figure
	}{{"Cassandra", CassandraCPU}, {"proxy", ProxyCPU}, {"client", ClientCPU}} {
		series := s.series(f.name, f.figure, TotalCPU)
		if drawable(series.Values) {
			c.Series = append(c.Series, series)
		}
	}
	for i := range max(len(c.Series)-1, 0) {
		c.Series[i].Low, c.Series[i].High = nil, nil
	}
	return c
}

// series returns a series with a value for each run of the condition, and the range of noise over
// its rounds.
func (s *standardCharts) series(name string, figure, noise Figure) Series {
	out := Series{Name: name}
	for _, run := range s.group.Runs {
		value, noise := run.Merge(figure), run.Merge(noise)
		if value.Rounds == 0 {
			out.Values = append(out.Values, nil)
		} else {
			out.Values = append(out.Values, &value.Median)
		}
		if noise.Rounds < 2 {
			out.Low, out.High = append(out.Low, nil), append(out.High, nil)
		} else {
			out.Low, out.High = append(out.Low, &noise.Min), append(out.High, &noise.Max)
		}
	}
	return out
}

// rounds draws a figure round by round, a line for each run; it is empty for one round.
func (s *standardCharts) rounds(name, title, yName string, figure Figure) Chart {
	c := s.chart(name, title)
	c.Kind, c.XName, c.YName = Lines, "round", yName
	c.LogY = yName == "p95, ms"
	c.Min, c.Max = s.r.bounds(func(r *Run) []Spread { return []Spread{r.Merge(figure)} })
	if !c.LogY {
		c.Min = 0
	}
	most := s.r.rounds()
	if most < 2 {
		return c
	}
	for i := range most {
		c.X = append(c.X, strconv.Itoa(i+1))
	}
	for _, run := range s.group.Runs {
		values := make([]*float64, most)
		for i := range run.Rounds {
			values[i] = figure(&run.Rounds[i])
		}
		if drawable(values) {
			c.Series = append(c.Series, Series{Name: run.Target, Values: values})
		}
	}
	return c
}

func (s *standardCharts) targets() []string {
	var names []string
	for _, run := range s.group.Runs {
		names = append(names, run.Target)
	}
	return names
}

// bounds returns the least and greatest of figures over all runs, for charts with a common scale.
func (r *Report) bounds(figures func(*Run) []Spread) (least, greatest float64) {
	first := true
	for i := range r.Runs {
		for _, s := range figures(&r.Runs[i]) {
			switch {
			case s.Rounds == 0:
			case first:
				least, greatest, first = s.Min, s.Max, false
			default:
				least, greatest = min(least, s.Min), max(greatest, s.Max)
			}
		}
	}
	return least, greatest
}

// drawable reports whether at least one value is not nil.
func drawable(values []*float64) bool {
	for _, v := range values {
		if v != nil {
			return true
		}
	}
	return false
}
