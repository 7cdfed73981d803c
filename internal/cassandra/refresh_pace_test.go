package cassandra

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPace(t *testing.T) {
	const interval = time.Minute
	around := func(t *testing.T, d time.Duration) {
		assert.InDelta(t, interval.Seconds(), d.Seconds(), interval.Seconds()/10+0.001)
	}
	t.Run("a settled cluster is asked at the interval", func(t *testing.T) {
		var p pace
		around(t, p.pause(settled, nil, interval))
	})
	t.Run("an event is followed up, then the interval again", func(t *testing.T) {
		var p pace
		p.event()
		for range eventFollowUps {
			assert.Equal(t, soon, p.pause(settled, nil, interval))
		}
		around(t, p.pause(settled, nil, interval))
	})
	t.Run("nodes that disagree are asked again soon, then ever more rarely", func(t *testing.T) {
		var p pace
		for range soonFollowUps {
			assert.Equal(t, soon, p.pause(unsettled, nil, interval))
		}
		for d := 2 * soon; d < interval; d *= 2 {
			assert.Equal(t, d, p.pause(unsettled, nil, interval))
		}
		for range 100 {
			around(t, p.pause(unsettled, nil, interval))
		}
		around(t, p.pause(settled, nil, interval))
		assert.Equal(t, soon, p.pause(unsettled, nil, interval))
	})
	t.Run("failures are tried again at growing pauses", func(t *testing.T) {
		var p pace
		for i := range 50 {
			d := p.pause(unsettled, errors.New("down"), interval)
			most := min(firstRetry<<min(i, 10), lastRetry)
			assert.LessOrEqual(t, d, most)
			assert.GreaterOrEqual(t, d, most/2)
		}
		around(t, p.pause(settled, nil, interval))
		assert.LessOrEqual(t, p.pause(unsettled, errors.New("down"), interval), firstRetry)
	})
}

func TestInLimitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l inLimits
		assert.Equal(t, math.MaxInt, l.get("a"))
		l.lower("a", 10)
		l.lower("a", 20)
		assert.Equal(t, 10, l.get("a"), "the lowest counts")
		l.lower("a", 0)
		assert.Equal(t, 1, l.get("a"), "one key always goes")
		assert.Equal(t, math.MaxInt, l.get("b"))
		time.Sleep(inLimitMemory)
		assert.Equal(t, math.MaxInt, l.get("a"))
		l.lower("a", 30)
		assert.Equal(t, 30, l.get("a"))
	})
}
