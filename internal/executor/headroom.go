package executor

import "time"

// A key whose host died while its other replicas are full waits for headroom at one of them.
// It is tried again after firstHeadroomWait, and then after twice as long each time, up to
// mostHeadroomWait: 1,024 keys are some 50 ms of work for a node.
const (
	firstHeadroomWait = 5 * time.Millisecond
	mostHeadroomWait  = 20 * time.Millisecond
)

// mayWait reports whether a key waits for headroom: a host that was asked for it could not
// be reached, too few others are being asked, its level can be met, and there is time. Keys
// that nobody was asked for, or that a host refused, are shed at once: that is load.
func (r *run) mayWait(k int32) bool {
	ks := &r.keys[k]
	return ks.full && ks.asked && int(ks.inFlight) < ks.lacks() && ks.last.Free() && ks.last != reasonFull &&
		r.deadline != unset && r.executor.now()+int64(firstHeadroomWait) < r.deadline && !r.tooFew(k)
}

// waitForHeadroom has a key tried again soon.
func (r *run) waitForHeadroom(k int32) {
	r.waiting = append(r.waiting, k)
	if r.headroomAt == unset {
		r.headroomWait = min(max(2*r.headroomWait, firstHeadroomWait), mostHeadroomWait)
		r.headroomAt = r.executor.now() + int64(r.headroomWait)
	}
}

// headroomDue tries the keys that wait for headroom.
func (r *run) headroomDue() {
	r.headroomAt = unset
	for _, k := range r.waiting {
		if ks := &r.keys[k]; !ks.done && !ks.missed {
			ks.missed = true
			r.lost = append(r.lost, k)
		}
	}
	r.waiting = r.waiting[:0]
	r.failoverLost()
}

// noHeadroom ends the keys that have waited in vain.
func (r *run) noHeadroom() {
	for _, k := range r.waiting {
		r.keys[k].last = reasonFull
		r.exhaust(k)
	}
}
