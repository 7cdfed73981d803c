package lookup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhenALookupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tbl := &Table{Settings: &Settings{Timeout: 125 * time.Millisecond}}
		bounded, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for name, c := range map[string]struct {
			ctx               context.Context
			timeout, deadline time.Duration
			want              time.Duration
		}{
			"at that of the table":                      {t.Context(), 0, 0, 125 * time.Millisecond},
			"at that of the request before the table's": {t.Context(), time.Second, 0, time.Second},
			"at that of the call before the table's":    {bounded, 0, 0, 50 * time.Millisecond},
			"at the earlier of call and request":        {bounded, 20 * time.Millisecond, 0, 20 * time.Millisecond},
			"at the earlier, if that is the call":       {bounded, time.Second, 0, 50 * time.Millisecond},
			"at its deadline, whatever its timeout":     {t.Context(), 20 * time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond},
			"not after the call, whatever its deadline": {bounded, 0, time.Second, 50 * time.Millisecond},
		} {
			req := &Request{Table: tbl, Timeout: c.timeout}
			if c.deadline > 0 {
				req.Deadline = time.Now().Add(c.deadline)
			}
			assert.Equal(t, c.want, time.Until(req.End(c.ctx)), name)
		}
	})
}
