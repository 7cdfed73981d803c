package chaos

import (
	"fmt"
	"math"
)

// cell is one load of no-harm: callers in a closed loop, with lookups of so many keys of one
// table.
type cell struct {
	rows          string
	keys, callers int
}

// The tables of no-harm, by the rows of a key.
const (
	oneRow   = "one row"
	fourRows = "four rows"
)

// harmCells are in the order in which they are measured: small lookups and few callers first,
// so that what a load has taught a proxy bears little on the next.
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

// compared is what a cell has shown with and without admission, in lookups.
type compared struct {
	inTime, refused, inTimeWithout, lateWithout float64
	// pairs are stretches with admission beside one without, and squares the sum of the squares
	// by which those in time differ in them.
	pairs, squares float64
}

// What is kept of a cell.
const (
	harmInTime        = "in time"
	harmRefused       = "refused"
	harmInTimeWithout = "in time without admission"
	harmLateWithout   = "late without admission"
	harmPairs         = "pairs of stretches"
	harmSquares       = "squares of what is in time more or less"
)

func (c cell) figure(name string) string { return c.String() + ", " + name }

// note adds what a pair of stretches has shown.
func (c cell) note(o *Outcome, seen compared) {
	o.detail(c.figure(harmInTime), seen.inTime)
	o.detail(c.figure(harmRefused), seen.refused)
	o.detail(c.figure(harmInTimeWithout), seen.inTimeWithout)
	o.detail(c.figure(harmLateWithout), seen.lateWithout)
	o.detail(c.figure(harmPairs), 1)
	o.detail(c.figure(harmSquares), (seen.inTime-seen.inTimeWithout)*(seen.inTime-seen.inTimeWithout))
}

// of reads the figures of a cell.
func (c cell) of(o *Outcome) compared {
	value := func(name string) float64 { return o.Value(c.figure(name)) }
	return compared{value(harmInTime), value(harmRefused), value(harmInTimeWithout), value(harmLateWithout),
		value(harmPairs), value(harmSquares)}
}

// keeps reports whether the SLA is met without admission: its p99 is in time.
func (c compared) keeps() bool {
	return c.inTimeWithout > 0 && c.lateWithout <= 0.01*(c.inTimeWithout+c.lateWithout)
}

// variance is that of what is in time more or less with admission, over all pairs, by how the
// pairs differ from each other; 0 of less than two.
func (c compared) variance() float64 {
	if c.pairs < 2 {
		return 0
	}
	less := c.inTimeWithout - c.inTime
	return max(c.squares-less*less/c.pairs, 0) / (c.pairs - 1) * c.pairs
}

// scatter is how much the pairs of cells that need no admission differ from each other, all
// taken together: the variance of the sum of one, relative to the square of what is in time in
// it without admission. A cell by itself has too few pairs to tell.
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

// harmed reports whether less than 0.97 of what is in time without admission is in time with
// it, by three standard deviations: of 32 cells one is seldom so by chance. What a lookup takes
// on a machine of a few CPUs changes within seconds, so that stretches differ by far more than
// counts of so many would (Poisson).
func (c compared) harmed(scatter float64) bool {
	variance := max(c.inTime+c.inTimeWithout, c.variance(), scatter*c.inTimeWithout*c.inTimeWithout)
	return c.inTime < 0.97*c.inTimeWithout-3*math.Sqrt(variance)
}

// judgeHarm holds each cell to what it is without admission, and those that need none to their
// mean besides, which tells less of a difference from chance.
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
