package report

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// fileName matches a valid Name of a report or chart, which becomes part of a file name.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Validate returns an error that lists everything that keeps the report from being drawn.
func (r *Report) Validate() error {
	var errs []error
	if !fileName.MatchString(r.Name) {
		errs = append(errs, fmt.Errorf("name %q does not fit a file: use letters, digits, dots, dashes", r.Name))
	}
	if r.SLA != nil && (r.SLA.Percentile <= 0 || r.SLA.Percentile >= 100) {
		errs = append(errs, fmt.Errorf("sla: percentile %v is not between 0 and 100", r.SLA.Percentile))
	}
	for i := range r.Runs {
		if len(r.Runs[i].Rounds) == 0 {
			errs = append(errs, fmt.Errorf("run %q: no rounds", r.Runs[i].Name()))
		}
	}
	for i := range r.Tables {
		errs = append(errs, r.Tables[i].validate())
	}
	for i := range r.Charts {
		errs = append(errs, r.Charts[i].validate())
	}
	return errors.Join(errs...)
}

func (t *Table) validate() error {
	for i, row := range t.Rows {
		if len(row) != len(t.Columns) {
			return fmt.Errorf("table %q: row %d has %d cells for %d columns", t.Title, i+1, len(row), len(t.Columns))
		}
	}
	return nil
}

func (c *Chart) validate() error {
	if !fileName.MatchString(c.Name) {
		return fmt.Errorf("chart %q: the name does not fit a file: use letters, digits, dots, dashes", c.Name)
	}
	switch c.Kind {
	case Bars, Stacked, Lines:
	default:
		return fmt.Errorf("chart %q: unknown kind %q", c.Name, c.Kind)
	}
	for _, s := range c.Series {
		if err := s.validate(len(c.X)); err != nil {
			return fmt.Errorf("chart %q: series %q %w", c.Name, s.Name, err)
		}
	}
	return c.validateX()
}

func (s *Series) validate(points int) error {
	if (len(s.Low) == 0) != (len(s.High) == 0) {
		return errors.New("has low without high, or high without low")
	}
	for i, values := range [][]*float64{s.Values, s.Low, s.High} {
		optional := i > 0
		if len(values) != points && (!optional || len(values) > 0) {
			return fmt.Errorf("has %d values for %d points", len(values), points)
		}
	}
	return nil
}

func (c *Chart) validateX() error {
	switch c.XScale {
	case Categories:
		return nil
	case Linear, Log, Nines:
	default:
		return fmt.Errorf("chart %q: unknown x_scale %q", c.Name, c.XScale)
	}
	for _, x := range c.X {
		v, err := strconv.ParseFloat(x, 64)
		if err != nil || (c.XScale == Log && v <= 0) || (c.XScale == Nines && (v < 0 || v > 1)) {
			return fmt.Errorf("chart %q: x %q does not fit the scale %q", c.Name, x, c.XScale)
		}
	}
	return nil
}
