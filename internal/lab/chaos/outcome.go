package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is the result of one try, or the sum of several.
type Outcome struct {
	// Loads are the periods of load, in the order in which they are to be read.
	Loads []*Load `json:"loads,omitempty"`
	// Figures are the other measured values.
	Figures []Figure `json:"figures,omitempty"`
}

// Figure is a measured value. Its Kind says how the figures of several tries are merged.
type Figure struct {
	// Name and Unit are for people; Unit may be empty for a count.
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// Kind says how it is merged.
	Kind Kind `json:"kind"`
	// Value is the value; for a Share it is the numerator, and Of the denominator.
	Value float64 `json:"value"`
	Of    float64 `json:"of,omitempty"`
	// Detail marks a figure that only the judge reads and reports do not show.
	Detail bool `json:"detail,omitempty"`
}

// Kind says how the figures of several tries are merged.
type Kind string

// The kinds of figures.
const (
	// Sum adds the values; Most takes the greatest and Least the least of them.
	Sum   Kind = "sum"
	Most  Kind = "most"
	Least Kind = "least"
	// Share adds numerators and denominators separately.
	Share Kind = "share"
)

// load adds a load under a name.
func (o *Outcome) load(name string, l *Load) {
	l.Name = name
	o.Loads = append(o.Loads, l)
}

// figure adds a figure that is a Sum, Most or Least.
func (o *Outcome) figure(kind Kind, name string, value float64, unit string) {
	o.Figures = append(o.Figures, Figure{Name: name, Kind: kind, Value: value, Unit: unit})
}

// detail adds a Sum that only the judge reads.
func (o *Outcome) detail(name string, value float64) {
	o.Figures = append(o.Figures, Figure{Name: name, Kind: Sum, Value: value, Detail: true})
}

// share adds a Share, value of of.
func (o *Outcome) share(name string, value, of float64) {
	o.Figures = append(o.Figures, Figure{Name: name, Kind: Share, Value: value, Of: of})
}

// Load returns the load with this name, or an empty one.
func (o *Outcome) Load(name string) *Load {
	for _, l := range o.Loads {
		if l.Name == name {
			return l
		}
	}
	return &Load{Name: name}
}

// Value returns the value of the figure with this name, for a Share the quotient; 0 when there is
// none.
func (o *Outcome) Value(name string) float64 {
	for i := range o.Figures {
		if o.Figures[i].Name == name {
			return o.Figures[i].value()
		}
	}
	return 0
}

func (f *Figure) value() float64 {
	if f.Kind == Share {
		return f.Value / max(f.Of, 1e-9)
	}
	return f.Value
}

// Merge returns the sum of tries. Its percentiles are over the samples of all tries.
func Merge(tries ...*Outcome) *Outcome {
	sum := &Outcome{}
	for _, o := range tries {
		for _, l := range o.Loads {
			if at := slices.IndexFunc(sum.Loads, func(s *Load) bool { return s.Name == l.Name }); at >= 0 {
				sum.Loads[at].Seconds += l.Seconds
				sum.Loads[at].Add(l)
				continue
			}
			first := &Load{Name: l.Name, Seconds: l.Seconds}
			first.Add(l)
			sum.Loads = append(sum.Loads, first)
		}
		for _, f := range o.Figures {
			at := slices.IndexFunc(sum.Figures, func(s Figure) bool { return s.Name == f.Name })
			if at < 0 {
				sum.Figures = append(sum.Figures, f)
				continue
			}
			sum.Figures[at].add(&f)
		}
	}
	return sum
}

func (f *Figure) add(other *Figure) {
	switch f.Kind {
	case Most:
		f.Value = max(f.Value, other.Value)
	case Least:
		f.Value = min(f.Value, other.Value)
	case Sum, Share:
		f.Value += other.Value
		f.Of += other.Of
	}
}

// String returns the figure in words.
func (f *Figure) String() string {
	switch {
	case f.Kind == Share:
		return fmt.Sprintf("%s %.2f %%", f.Name, f.value()*100)
	case f.Unit == "":
		return fmt.Sprintf("%s %.0f", f.Name, f.Value)
	default:
		return fmt.Sprintf("%s %.1f %s", f.Name, f.Value, f.Unit)
	}
}

// String returns the outcome in full.
func (o *Outcome) String() string { return o.text((*Load).String) }

// Short returns the outcome in a few words.
func (o *Outcome) Short() string { return o.text((*Load).Short) }

func (o *Outcome) text(load func(*Load) string) string {
	var parts []string
	for _, l := range o.Loads {
		parts = append(parts, load(l))
	}
	for i := range o.Figures {
		if !o.Figures[i].Detail {
			parts = append(parts, o.Figures[i].String())
		}
	}
	return strings.Join(parts, "; ")
}

// Check is one part of a scenario's promise, checked against the sum of all tries.
type Check struct {
	// What names what must not happen, such as "lookups failed"; Unit is the unit of Seen and Allowed
	// and may be empty.
	What string `json:"what"`
	Unit string `json:"unit,omitempty"`
	// Seen is how much of it there was, and Allowed how much there may be.
	Seen    float64 `json:"seen"`
	Allowed float64 `json:"allowed"`
	// Least is what a control must reach in addition to ten times Allowed.
	Least float64 `json:"least,omitempty"`
	// Sane marks a check of the measurement itself; it does not count as broken by a control.
	Sane bool `json:"sane,omitempty"`
}

// How much worse a control must be than what is allowed, and the fewest failures that it must have.
const (
	tenfold       = 10
	leastFailures = 10
)

// counted returns a check of a count.
func counted(what string, seen int64, allowed float64) Check {
	return Check{What: what, Seen: float64(seen), Allowed: allowed, Least: leastFailures}
}

// amount returns a check of an amount; allowed is above 0.
func amount(what string, seen, allowed float64, unit string) Check {
	return Check{What: what, Seen: seen, Allowed: allowed, Unit: unit}
}

// sane returns a check of the measurement itself: unless it holds, the other checks mean nothing.
func sane(what string, holds bool) Check {
	c := Check{What: what, Sane: true}
	if !holds {
		c.Seen = 1
	}
	return c
}

// room checks that no lookup failed before the fault. Otherwise the machine was too slow for the
// load, and failures during the fault say nothing about the fault.
func room(before *Load) Check {
	return sane(fmt.Sprintf("%d lookups failed before the fault: the machine had no room", before.Failed), before.Failed == 0 && before.Lookups > 0)
}

// Kept reports whether no more was seen than is allowed.
func (c *Check) Kept() bool { return c.Seen <= c.Allowed }

// Broken reports whether a control broke the promise clearly: Seen reaches ten times Allowed, and
// at least ten where failures are counted.
func (c *Check) Broken() bool {
	return !c.Sane && c.Seen > 0 && c.Seen >= max(tenfold*c.Allowed, c.Least)
}

// String returns the check in words.
func (c *Check) String() string {
	switch {
	case c.Sane:
		return c.What
	case c.Unit != "":
		return fmt.Sprintf("%s %.1f %s (at most %.4g %s)", c.What, c.Seen, c.Unit, c.Allowed, c.Unit)
	default:
		return fmt.Sprintf("%.0f %s (at most %.4g)", c.Seen, c.What, c.Allowed)
	}
}

// text lists the picked checks in words.
func text(checks []Check, pick func(*Check) bool) string {
	var parts []string
	for i := range checks {
		if pick(&checks[i]) {
			parts = append(parts, checks[i].String())
		}
	}
	return strings.Join(parts, "; ")
}
