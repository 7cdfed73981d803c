package admission

import "time"

const (
	// telling is how much lower the keys under way must be than before to tell
	// whether it helps, and costly the share of the answers that is gone then if
	// it does not.
	telling, costly = 0.6, 0.75
	// firstHold is how long a doubt holds; it doubles up to longestHold with each
	// time that it proves right again.
	firstHold, longestHold = 5 * time.Second, 5 * time.Minute
)

// doubt tells overload from lookups that are slow by themselves: large rows, a
// far datacenter, a promise that was never realistic. When hosts are overloaded,
// less under way means faster answers and just as many; when they are not, it
// means fewer answers that are as slow as before, and the limit does harm.
type doubt struct {
	// stretch is how many times slower than the setpoint lookups may be: 1
	// without a doubt.
	stretch float64
	until   time.Time
	hold    time.Duration
	// mean and rate are the keys under way and the keys answered a second when
	// the limit began to fall; 0 when it does not.
	mean, rate float64
}

// remember takes what was before the limit began to fall.
func (d *doubt) remember(mean, rate float64) {
	if d.mean == 0 && rate > 0 {
		d.mean, d.rate = mean, rate
	}
}

// weigh looks whether the limit has done harm, and if so raises it again. It
// reports whether the limit should stay as it is to find out.
func (d *doubt) weigh(l *load, ratio, mean, rate float64, now time.Time) (wait bool) {
	// Keys that are not answered in time are lost either way, so that a limit does
	// no harm; and a doubt under which they are is wrong.
	lost := 20*l.sample.late > len(l.sample.ratios)
	if d.stretch > 1 && (lost || now.After(d.until)) {
		d.stretch = 1
	}
	if ratio <= tooSlow*d.stretch {
		d.mean, d.rate = 0, 0
		if ratio > 0 && ratio <= tooSlow {
			d.hold = 0
		}
		return false
	}
	if d.mean == 0 || mean > telling*d.mean || lost {
		return false
	}
	// Answers to what started under the former limit say nothing about this one.
	if l.sample.begin.Sub(l.lowered) < l.sample.longest {
		return true
	}
	if rate < costly*d.rate {
		d.hold = min(max(2*d.hold, firstHold), longestHold)
		d.stretch, d.until = 2*ratio/setpoint, now.Add(d.hold)
		l.limit = l.rest()
	}
	d.mean, d.rate = 0, 0
	return false
}
