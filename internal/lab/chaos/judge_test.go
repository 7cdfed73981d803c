package chaos

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qosproxy/qosproxy/internal/lab/report"
)

// loadOf returns a load with a count of lookups for each latency in milliseconds.
func loadOf(failed int64, millis map[int64]int64) *Load {
	r := &report.Round{Seconds: 10}
	for ms, n := range millis {
		r.Counts.Lookups += n
		r.Latency.Samples = append(r.Latency.Samples, report.Sample{Micros: ms * 1000, Count: n})
	}
	r.Counts.Good = r.Counts.Lookups - failed
	r.Counts.Right = r.Counts.Good
	return NewLoad(r)
}

// outcomeOf returns a try with such a load and a figure of each kind.
func outcomeOf(failed int64, millis map[int64]int64, figure float64) *Outcome {
	o := &Outcome{}
	o.load("during", loadOf(failed, millis))
	o.figure(Sum, "restarts", figure, "")
	o.figure(Most, "back after", figure, "s")
	o.figure(Least, "goodput", figure, "/s")
	o.share("in time", figure, 10)
	return o
}

func TestTriesAreAddedUp(t *testing.T) {
	one := outcomeOf(1, map[int64]int64{5: 100}, 2)
	two := outcomeOf(0, map[int64]int64{5: 96, 100: 4}, 4)
	three := outcomeOf(2, map[int64]int64{5: 790, 7: 10}, 9)
	sum := Merge(one, two, three)
	during := sum.Load("during")
	assert.Equal(t, int64(1000), during.Lookups)
	assert.Equal(t, int64(3), during.Failed, "failures of all tries")
	assert.Equal(t, int64(3), during.Lost)
	assert.InDelta(t, 30, during.Seconds, 1e-9)
	// The mean of the three would be 37 ms, and the greatest 100 ms.
	assert.InDelta(t, 0.007, during.P99, 1e-9, "of all samples")
	assert.InDelta(t, 0.005, during.P50, 1e-9)
	assert.InDelta(t, 0.100, during.Max, 1e-9)
	assert.InDelta(t, 15, sum.Value("restarts"), 1e-9)
	assert.InDelta(t, 9, sum.Value("back after"), 1e-9, "the worst try")
	assert.InDelta(t, 2, sum.Value("goodput"), 1e-9, "the worst try")
	assert.InDelta(t, 0.5, sum.Value("in time"), 1e-9, "numerators by denominators")
	assert.Equal(t, int64(100), one.Load("during").Lookups, "the tries stay what they are")
}

func TestLoadsOfTablesAreToldApart(t *testing.T) {
	all := &Load{}
	for _, name := range []string{"one key column", "two key columns", "one key column"} {
		l := loadOf(1, map[int64]int64{5: 50})
		l.Tables = []TableLoad{{Name: name, Lookups: l.Lookups, Failed: l.Failed}}
		all.Add(l)
	}
	assert.Equal(t, []TableLoad{{"one key column", 100, 2}, {"two key columns", 50, 1}}, all.Tables)
	assert.Contains(t, all.String(), "(one key column 2 of 100, two key columns 1 of 50)")
}

// A try that keeps the promise does not make up for another that does not.
func TestAPromiseIsKeptByAllTriesTogether(t *testing.T) {
	promise := func(o *Outcome) []Check { return []Check{counted("lookups failed", o.Load("during").Failed, 0)} }
	for name, tt := range map[string]struct {
		failed []int64
		kept   bool
	}{
		"all keep it":         {[]int64{0, 0, 0}, true},
		"the last one breaks": {[]int64{0, 0, 1}, false},
		"the last one keeps":  {[]int64{1, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Verdict{}
			for _, n := range tt.failed {
				v.Tries = append(v.Tries, outcomeOf(n, map[int64]int64{5: 100}, 1))
			}
			v.Judge(promise)
			assert.Equal(t, tt.kept, v.Kept)
			assert.Equal(t, tt.kept, v.NotKept() == "")
		})
	}
	v := &Verdict{Tries: []*Outcome{outcomeOf(0, map[int64]int64{5: 100}, 1)}}
	v.Judge(func(*Outcome) []Check { return nil })
	assert.False(t, v.Kept, "a promise without a check is none")
}

func TestAControlBreaksThePromiseByTenTimes(t *testing.T) {
	for name, tt := range map[string]struct {
		check  Check
		kept   bool
		broken bool
	}{
		"none failed of none allowed":      {counted("failed", 0, 0), true, false},
		"one failure breaks the promise":   {counted("failed", 1, 0), false, false},
		"nine failures are not tenfold":    {counted("failed", 9, 0), false, false},
		"ten failures of none allowed":     {counted("failed", 10, 0), false, true},
		"ten failures of three allowed":    {counted("failed", 10, 3), false, false},
		"thirty failures of three allowed": {counted("failed", 30, 3), false, true},
		"ten failures of a tenth allowed":  {counted("failed", 10, 0.1), false, true},
		"p99 by 249 ms more":               {amount("p99", 249, 25, "ms"), false, false},
		"p99 by 250 ms more":               {amount("p99", 250, 25, "ms"), false, true},
		"p99 below that before":            {amount("p99", -3, 25, "ms"), true, false},
		"a measurement that is none":       {sane("nothing was read", false), false, false},
		"room before the fault":            {room(loadOf(0, map[int64]int64{5: 1})), true, false},
		"no room before the fault":         {room(loadOf(30, map[int64]int64{5: 100})), false, false},
		"no load before the fault":         {room(&Load{}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.kept, tt.check.Kept())
			assert.Equal(t, tt.broken, tt.check.Broken())
			v := &Verdict{Control: &Outcome{}, Tries: []*Outcome{{}}}
			v.Judge(func(*Outcome) []Check { return []Check{tt.check} })
			assert.Equal(t, tt.broken, v.Proven())
		})
	}
}

func TestErrorsAreToldInWords(t *testing.T) {
	assert.Empty(t, errorsInWords(nil))
	assert.Empty(t, errorsInWords(map[string]int64{}))
	assert.Equal(t, "7 × “TIMED_OUT: no replica answered within the time left”, 2 × “Unavailable: none”, 1 × “a”, 2 others", errorsInWords(map[string]int64{
		"KEY_STATUS_TIMED_OUT: no replica answered within 111ms\nfirst of 3 keys": 3, "KEY_STATUS_TIMED_OUT: no replica answered within 112ms": 4,
		"rpc error: code = Unavailable desc = none": 2, "a": 1, "b": 1, "c": 1,
	}))
	quiet := loadOf(0, map[int64]int64{5: 10})
	quiet.Name = "during"
	assert.Equal(t, "during 10 lookups, 0 failed, p50 5.0 ms, p99 5.0 ms, slowest 5 ms, 0.0 % extra sub-queries", quiet.String())
}
