package lookup

import (
	"context"
	"time"
)

// End returns the time by which a lookup that begins now must end: Deadline or, if
// that is zero, now plus Timeout. If both are zero and ctx has no deadline, the
// timeout of the table applies. The end is never after the deadline of ctx.
func (r *Request) End(ctx context.Context) time.Time {
	end, bounded := ctx.Deadline()
	own := r.Deadline
	if own.IsZero() {
		switch {
		case r.Timeout > 0:
			own = time.Now().Add(r.Timeout)
		case !bounded:
			own = time.Now().Add(r.Table.Settings.Timeout)
		default:
			return end
		}
	}
	if bounded && end.Before(own) {
		return end
	}
	return own
}
