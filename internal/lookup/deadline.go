package lookup

import (
	"context"
	"time"
)

// End returns when a lookup that begins at this moment ends at the latest: at
// Deadline or, if that is not set, after Timeout. The timeout of the table bounds a
// lookup that brings neither and whose context has no deadline. The end is never
// after the deadline of the context.
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
