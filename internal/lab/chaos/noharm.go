package chaos

import (
	"fmt"
	"math"
)

// cell is one load of the scenario no-harm: a closed loop of callers, whose lookups have this many
// keys of one table.
type cell struct {
	rows          string
	keys, callers int
}

// The tables of no-harm, by the rows of a key.
const (
	oneRow   = "one row"
	fourRows = "four rows"
)

// harmCells returns the cells in the order in which they are measured. Small lookups and few
// callers come first, so that what a proxy learned from one load affects the next one little.
func harmCells() []cell {
	var cells []cell
	for _, rows := range []string{oneRow, fourRows} {
		for _, keys := range []int{5, 50, 200, 500} {
			for _, callers := range []int{1, 4, 8, 16} {
				cells = append(cells, cell{rows, keys, callers})
			}
		}
	}
	return cells
}

func (c cell) String() string {
	return fmt.Sprintf("%d callers of %d keys, %s each", c.callers, c.keys, c.rows)
}

// compared holds the counts of lookups of a cell with and without admission.
type compared struct {
	inTime, refused, inTimeWithout, lateWithout float64
	// pairs counts the pairs of measurements, one with and one without admission. squares is the sum
	// of the squared differences of their lookups in time.
	pairs, squares float64
}

// The figures that an outcome keeps of a cell.
const (
	harmInTime        = "in time"
	harmRefused       = "refused"
	harmInTimeWithout = "in time without admission"
	harmLateWithout   = "late without admission"
	harmPairs         = "pairs of stretches"
	harmSquares       = "squares of what is in time more or less"
)

func (c cell) figure(name string) string { return c.String() + ", " + name }

// note adds the result of one pair of measurements.
func (c cell) note(o *Outcome, seen compared) {
	o.detail(c.figure(harmInTime), seen.inTime)
	o.detail(c.figure(harmRefused), seen.refused)
	o.detail(c.figure(harmInTimeWithout), seen.inTimeWithout)
	o.detail(c.figure(harmLateWithout), seen.lateWithout)
	o.detail(c.figure(harmPairs), 1)
	o.detail(c.figure(harmSquares), (seen.inTime-seen.inTimeWithout)*(seen.inTime-seen.inTimeWithout))
}

// of reads the figures of a cell from an outcome.
func (c cell) of(o *Outcome) compared {
	value := func(name string) float64 { return o.Value(c.figure(name)) }
	return compared{value(harmInTime), value(harmRefused), value(harmInTimeWithout), value(harmLateWithout),
		value(harmPairs), value(harmSquares)}
}

// keeps reports whether the cell meets the SLA without admission: 99 % of its lookups are in time.
func (c compared) keeps() bool {
	return c.inTimeWithout > 0 && c.lateWithout <= 0.01*(c.inTimeWithout+c.lateWithout)
}

// variance returns the variance of the summed difference of lookups in time, with and without
// admission, estimated from how the pairs differ from each other; 0 for fewer than two pairs.
func (c compared) variance() float64 {
	if c.pairs < 2 {
		return 0
	}
	less := c.inTimeWithout - c.inTime
	return max(c.squares-less*less/c.pairs, 0) / (c.pairs - 1) * c.pairs
}

// scatter returns the mean variance of the cells that need no admission, each relative to the
// square of its lookups in time without admission. The cells are pooled because one alone has too
// few pairs.
func scatter(cells []compared) float64 {
	var sum, n float64
	for _, c := range cells {
		if c.keeps() && c.pairs > 1 {
			sum += c.variance() / (c.inTimeWithout * c.inTimeWithout)
			n++
		}
	}
	return sum / max(n, 1)
}

// harmed reports whether fewer than 0.97 of the lookups in time without admission are in time with
// it, by three standard deviations, so that chance rarely harms one of 32 cells. The latency of a
// lookup on a machine with few CPUs changes within seconds, so measurements differ by far more than
// the counts suggest (Poisson).
func (c compared) harmed(scatter float64) bool {
	variance := max(c.inTime+c.inTimeWithout, c.variance(), scatter*c.inTimeWithout*c.inTimeWithout)
	return c.inTime < 0.97*c.inTimeWithout-3*math.Sqrt(variance)
}

// judgeHarm compares each cell with itself without admission. It also compares the mean of the
// cells that need no admission, which shows smaller differences than a single cell.
func judgeHarm(o *Outcome) []Check {
	var all []compared
	for _, c := range harmCells() {
		all = append(all, c.of(o))
	}
	by := scatter(all)
	harmed, refused, cells, lost := int64(0), int64(0), 0.0, 0.0
	for _, c := range all {
		if c.harmed(by) {
			harmed++
		}
		if c.keeps() {
			refused += int64(c.refused)
			cells++
			lost += 1 - c.inTime/c.inTimeWithout
		}
	}
	return []Check{
		counted("loads of which fewer are in time than 0.97 × without admission", harmed, 0),
		counted("lookups refused where 99 % are in time without admission", refused, 0),
		amount("fewer in time on average where 99 % are without admission", lost/max(cells, 1)*100, 3, "%"),
		sane("without admission no load had 99 % in time: the machine had no room", cells > 0),
	}
}
