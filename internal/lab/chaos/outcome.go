package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is what one try has seen, or several tries together.
type Outcome struct {
	// Loads are the stretches of load, in the order in which they are read.
	Loads []*Load `json:"loads,omitempty"`
	// Figures are what was counted besides.
	Figures []Figure `json:"figures,omitempty"`
}

// Figure is something that was counted. How figures of several tries become one is said
// by Kind.
type Figure struct {
	// Name and Unit are words for people; Unit may be empty for a count.
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// Kind is how it is merged.
	Kind Kind `json:"kind"`
	// Value is the figure; of a Share, its numerator, of which Of is the denominator.
	Value float64 `json:"value"`
	Of    float64 `json:"of,omitempty"`
	// Detail is set on what is for the judge, and not shown.
	Detail bool `json:"detail,omitempty"`
}

// Kind is how a figure of several tries is made.
type Kind string

// The kinds of figures.
const (
	// Sum adds up; Most takes the greatest and Least the least of the tries.
	Sum   Kind = "sum"
	Most  Kind = "most"
	Least Kind = "least"
	// Share adds up numerators and denominators, each for itself.
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

// detail adds a Sum that is for the judge.
func (o *Outcome) detail(name string, value float64) {
	o.Figures = append(o.Figures, Figure{Name: name, Kind: Sum, Value: value, Detail: true})
}

// share adds a figure that is a part of another.
func (o *Outcome) share(name string, value, of float64) {
	o.Figures = append(o.Figures, Figure{Name: name, Kind: Share, Value: value, Of: of})
}

// Load returns the load of a name; an empty one when there is none.
func (o *Outcome) Load(name string) *Load {
	for _, l := range o.Loads {
		if l.Name == name {
			return l
		}
	}
	return &Load{Name: name}
}

// Value returns the figure of a name, of a Share the quotient; 0 when there is none.
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

// Merge adds tries up. Percentiles of the sum are over the samples of all.
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

// String is a figure for people.
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

// String is the outcome in full.
func (o *Outcome) String() string { return o.text((*Load).String) }

// Short is the outcome in few words.
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

// Check is one part of a promise, held against what was seen over all tries.
type Check struct {
	// What is counted that must not be, such as "lookups failed"; Unit is that of the
	// figures and may be empty.
	What string `json:"what"`
	Unit string `json:"unit,omitempty"`
	// Seen is how much of it there was, and Allowed how much may be.
	Seen    float64 `json:"seen"`
	Allowed float64 `json:"allowed"`
	// Least is what a control must reach besides ten times Allowed.
	Least float64 `json:"least,omitempty"`
	// Sane is set on a check of the measurement itself, by which no control breaks the
	// promise.
	Sane bool `json:"sane,omitempty"`
}

// How much worse a control must be.
const (
	tenfold       = 10
	leastFailures = 10
)

// failed is a check of something that is counted one by one.
func counted(what string, seen int64, allowed float64) Check {
	return Check{What: what, Seen: float64(seen), Allowed: allowed, Least: leastFailures}
}

// measured is a check of an amount; allowed is above 0.
func amount(what string, seen, allowed float64, unit string) Check {
	return Check{What: what, Seen: seen, Allowed: allowed, Unit: unit}
}

// sane is a check of the measurement: without it the others mean nothing.
func sane(what string, holds bool) Check {
	c := Check{What: what, Sane: true}
	if !holds {
		c.Seen = 1
	}
	return c
}

// room holds the load before a fault to none failed: where the machine has no room for
// the load without a fault, the fault is not what fails lookups.
func room(before *Load) Check {
	return sane(fmt.Sprintf("%d lookups failed before the fault: the machine had no room", before.Failed), before.Failed == 0 && before.Lookups > 0)
}

// Kept reports whether no more was seen than is allowed.
func (c *Check) Kept() bool { return c.Seen <= c.Allowed }

// Broken reports whether a control has broken it by ten times: ten times what is
// allowed, and at least ten where failures are counted.
func (c *Check) Broken() bool {
	return !c.Sane && c.Seen > 0 && c.Seen >= max(tenfold*c.Allowed, c.Least)
}

// String is the check in words.
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

// text lists those checks that are picked, in words.
func text(checks []Check, pick func(*Check) bool) string {
	var parts []string
	for i := range checks {
		if pick(&checks[i]) {
			parts = append(parts, checks[i].String())
		}
	}
	return strings.Join(parts, "; ")
}
