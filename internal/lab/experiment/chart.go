package experiment

import (
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// overview is a chart of one figure of all runs of a report.
type overview struct {
	// title is the title of the chart and y the name of its y axis, with the unit after a comma.
	title, y string
	// figure is drawn as the median of the rounds, with the least and greatest.
	figure report.Figure
	// place returns the x and the series of a run. A run with an empty series is left out.
	place func(*report.Run) (x, series string)
	kind  report.ChartKind
	logY  bool
}

// draw adds the chart to a report that has runs to show.
func (o *overview) draw(r *report.Report) {
	c := report.Chart{Name: "overview", Title: o.title, Kind: o.kind, YName: o.y, LogY: o.logY}
	var series []string
	for i := range r.Runs {
		x, name := o.place(&r.Runs[i])
		if name == "" {
			continue
		}
		if !slices.Contains(c.X, x) {
			c.X = append(c.X, x)
		}
		if !slices.Contains(series, name) {
			series = append(series, name)
		}
	}
	if len(c.X) == 0 {
		return
	}
	for _, name := range series {
		c.Series = append(c.Series, report.Series{Name: name,
			Values: make([]*float64, len(c.X)), Low: make([]*float64, len(c.X)), High: make([]*float64, len(c.X))})
	}
	for i := range r.Runs {
		x, name := o.place(&r.Runs[i])
		got := r.Runs[i].Merge(o.figure)
		if name == "" || got.Rounds == 0 {
			continue
		}
		s, at := &c.Series[slices.Index(series, name)], slices.Index(c.X, x)
		s.Values[at], s.Low[at], s.High[at] = &got.Median, &got.Min, &got.Max
	}
	r.Charts = append(r.Charts, c)
}

// byTarget places a run at its target, in the series of its condition. It leaves out runs without a
// condition, or with one of those given.
func byTarget(without ...string) func(*report.Run) (x, series string) {
	return func(r *report.Run) (string, string) {
		if slices.Contains(without, r.Condition) || r.Condition == "" {
			return r.Target, ""
		}
		return r.Target, r.Condition
	}
}

// byPolicy places a run at its policy of speculative retry, or at its target if it has none, in the
// series of the trouble.
func byPolicy(r *report.Run) (x, series string) {
	if policy, trouble := cutLast(r.Condition); trouble != "" {
		return policy, trouble
	}
	return r.Target, r.Condition
}

// byLast places a run at its condition without the last part, in the series of the last part.
func byLast(r *report.Run) (x, series string) {
	return cutLast(r.Condition)
}

// cutLast splits a condition before its last part, if it has several.
func cutLast(condition string) (before, last string) {
	i := strings.LastIndex(condition, ", ")
	if i < 0 {
		return condition, ""
	}
	return condition[:i], condition[i+2:]
}
