package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// begin begins a call that must find room.
func begin(t testing.TB, p *Peer) *Call {
	t.Helper()
	c, err := p.Begin(nil)
	require.NoError(t, err)
	return c
}

func gone(c *Call) bool {
	select {
	case <-c.Gone():
		return true
	default:
		return false
	}
}

func TestTheNewestRequestOfTheHeaviestConnectionGoes(t *testing.T) {
	b := New(10 * CallBytes)
	heavy, light := b.Peer(nil, 0), b.Peer(nil, 0)
	calls := []*Call{begin(t, heavy), begin(t, heavy), begin(t, heavy)}
	heavy.Received(5 * CallBytes)
	other := begin(t, light)
	begin(t, light)

	interrupted := 0
	third, err := light.Begin(func() { interrupted++ })
	require.NoError(t, err, "the light one finds room")
	assert.True(t, gone(calls[2]), "the newest of the heavy one")
	assert.Equal(t, &Error{Full}, calls[2].Err())
	assert.False(t, gone(calls[0]) || gone(calls[1]) || gone(other))
	assert.NoError(t, other.Err())

	light.Received(8 * CallBytes)
	assert.True(t, gone(calls[1]) && gone(calls[0]) || gone(third), "what comes has room made for it")
	assert.LessOrEqual(t, b.Usage().Used, int64(10*CallBytes))

	heavy.Close()
	light.Close()
	assert.Zero(t, b.Usage().Used)
	assert.Equal(t, int64(0), b.Usage().Hosts)
}

func TestTheHeaviestConnectionFindsNoRoom(t *testing.T) {
	b := New(4 * CallBytes)
	heavy, light := b.Peer(nil, 0), b.Peer(nil, 0)
	begin(t, light)
	for range 3 {
		begin(t, heavy)
	}
	_, err := heavy.Begin(nil)
	var full *Error
	require.ErrorAs(t, err, &full)
	assert.Equal(t, Full, full.Reason)
	assert.Contains(t, err.Error(), "ask again later")
	begin(t, light) // a call of the heavy one is evicted for it
}

func TestNobodyIsEvictedInVain(t *testing.T) {
	b := New(10 * CallBytes)
	require.True(t, b.Hold(7*CallBytes, 1))
	heavy := b.Peer(nil, 0)
	calls := []*Call{begin(t, heavy), begin(t, heavy), begin(t, heavy)}
	assert.False(t, b.Hold(2*CallBytes, 0.5), "all of the connection would not be enough")
	for _, c := range calls {
		assert.NoError(t, c.Err())
	}
	assert.False(t, b.Hold(2*CallBytes, 1), "nor what it holds beyond as much")
	assert.NoError(t, calls[2].Err())
	assert.True(t, b.Hold(CallBytes, 1))
	assert.NoError(t, calls[1].Err())
	assert.Error(t, calls[2].Err())
}

func TestWithoutALimitNothingIsRefused(t *testing.T) {
	b := New(0)
	p := b.Peer(nil, 0)
	c := begin(t, p)
	p.Received(1 << 40)
	require.NoError(t, c.Complete(0, 1<<40))
	require.NoError(t, c.Grow(1<<40))
	_, err := c.Answer(1<<40, nil)
	require.NoError(t, err)
	assert.True(t, b.Hold(1<<40, 0.5))
}

func TestNilHoldsNothing(t *testing.T) {
	var p *Peer
	p.Received(1)
	p.Close()
	c, err := p.Begin(nil)
	require.NoError(t, err)
	assert.Nil(t, c)
	c.Received(1)
	require.NoError(t, c.Expect(1))
	require.NoError(t, c.Complete(0, 1))
	require.NoError(t, c.Grow(1))
	require.NoError(t, c.Err())
	assert.Nil(t, c.Gone())
	a, err := c.Answer(1, nil)
	require.NoError(t, err)
	a.Sent()
	c.End()
}

func TestAnswersOfHosts(t *testing.T) {
	b := New(100)
	require.True(t, b.Hold(500, 0.75), "one alone may take any amount")
	assert.False(t, b.Hold(1, 1), "beside it there is no room")
	b.Release(500)
	require.True(t, b.Hold(70, 0.75))
	assert.False(t, b.Hold(10, 0.75), "a heavy one leaves room for the light")
	assert.True(t, b.Hold(10, 1))
	assert.Equal(t, Usage{Used: 80, Hosts: 80, Limit: 100, Evicted: map[Reason]int64{Full: 0, Slow: 0}}, b.Usage())
	b.SetLimit(50)
	assert.False(t, b.Hold(1, 1))
}

func TestConnectionsGiveWayToLookups(t *testing.T) {
	b := New(10 * CallBytes)
	closed := 0
	p := b.Peer(func() { closed++ }, 0)
	c := begin(t, p)
	require.NoError(t, c.Complete(0, 0))
	a, err := c.Answer(9*CallBytes, nil)
	require.NoError(t, err)
	require.True(t, b.Hold(1, 1), "the first needs no room")
	assert.True(t, b.Hold(CallBytes, 1))
	assert.Equal(t, 1, closed, "a connection whose answers nobody reads")
	a.Sent()
	c.End()
	assert.Equal(t, int64(CallBytes+1), b.Usage().Used)
}

func TestAnAnswerThatCanBeGivenUpAloneIs(t *testing.T) {
	b := New(10 * CallBytes)
	aborted := 0
	p := b.Peer(nil, 0)
	c := begin(t, p)
	require.NoError(t, c.Complete(0, 0))
	_, err := c.Answer(9*CallBytes, func() { aborted++ })
	require.NoError(t, err)
	require.True(t, b.Hold(1, 1))
	assert.True(t, b.Hold(CallBytes, 1))
	assert.Equal(t, 1, aborted)
	assert.Equal(t, int64(2*CallBytes+1), b.Usage().Used, "the call and what is held")
}

func TestAnAnswerForWhichThereIsNoRoom(t *testing.T) {
	b := New(3 * CallBytes)
	p := b.Peer(nil, 0)
	c, other := begin(t, p), begin(t, p)
	require.NoError(t, c.Complete(0, 0))
	require.NoError(t, other.Complete(0, 0))
	_, err := c.Answer(2*CallBytes, nil)
	assert.Equal(t, &Error{Full}, err)
	assert.Equal(t, &Error{Full}, c.Grow(2*CallBytes))
	other.End()
	require.NoError(t, c.Grow(20*CallBytes), "alone it may take any amount")
	_, err = c.Answer(20*CallBytes, nil)
	assert.NoError(t, err)
}

func TestARequestThatGrowsWhenItIsDecompressed(t *testing.T) {
	b := New(4 * CallBytes)
	p := b.Peer(nil, 0)
	c, other := begin(t, p), begin(t, p)
	p.Received(100)
	assert.Equal(t, &Error{Full}, c.Complete(100, 3*CallBytes))
	assert.NoError(t, other.Complete(0, CallBytes))
	c.End()
	other.End()
	assert.Zero(t, b.Usage().Used)
}

// TestAnEvictedCallIsNotCompleted has the message of an evicted call be decoded all the same.
func TestAnEvictedCallIsNotCompleted(t *testing.T) {
	b := New(4 * CallBytes)
	p := b.Peer(nil, 0)
	c := begin(t, p)
	p.Received(5 * CallBytes)
	require.True(t, gone(c))
	assert.Equal(t, &Error{Full}, c.Complete(100, CallBytes), "what nobody counts must not go on")
	c.End()
	assert.Zero(t, b.Usage().Used)
}

func TestWhatAMessageMayTakeIsTakenAhead(t *testing.T) {
	b := New(6 * CallBytes)
	p := b.Peer(nil, 0)
	c, other := begin(t, p), begin(t, p)
	require.NoError(t, c.Expect(3*CallBytes))
	assert.Equal(t, int64(5*CallBytes), b.Usage().Used)
	assert.Equal(t, &Error{Full}, other.Expect(3*CallBytes))
	require.NoError(t, c.Complete(0, CallBytes))
	assert.Equal(t, int64(3*CallBytes), b.Usage().Used, "what it takes for good")
	other.End()
	c.End()
	assert.Zero(t, b.Usage().Used)

	lone := begin(t, p)
	p.Received(5 * CallBytes)
	require.NoError(t, lone.Expect(20*CallBytes), "alone it may take any amount")
	assert.False(t, gone(lone))
}

func TestAnotherMessageIsReceivedLikeTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1 << 20)
		p := b.Peer(nil, 0)
		c := begin(t, p)
		require.NoError(t, c.Expect(0))
		require.NoError(t, c.Complete(0, 1000))
		time.Sleep(time.Hour)
		p.Received(10)
		assert.Equal(t, int64(CallBytes+1000), b.Usage().Used, "nothing is expected")
		require.NoError(t, c.Expect(0))
		assert.Equal(t, int64(CallBytes), b.Usage().Used, "the last message is gone")
		p.Received(10)
		assert.Equal(t, int64(CallBytes+10), b.Usage().Used)
		b.Expire(time.Minute, time.Minute)
		assert.False(t, gone(c), "its time begins anew")
		time.Sleep(time.Minute + time.Second)
		b.Expire(time.Minute, time.Minute)
		assert.True(t, gone(c))
		assert.Equal(t, &Error{Slow}, c.Expect(0))
		c.End()
		assert.Zero(t, b.Usage().Used)
	})
}

func TestWhatTakesTooLongGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1 << 20)
		var events []string
		p := b.Peer(func() { events = append(events, "close") }, 0)
		slow, err := p.Begin(func() { events = append(events, "interrupt") })
		require.NoError(t, err)
		ready := begin(t, p)
		require.NoError(t, ready.Complete(0, 10))
		_, err = ready.Answer(10, func() { events = append(events, "abort") })
		require.NoError(t, err)

		b.Expire(time.Minute, time.Minute)
		assert.Empty(t, events)
		time.Sleep(time.Minute + time.Second)
		b.Expire(time.Minute, time.Hour)
		assert.Equal(t, []string{"interrupt"}, events)
		assert.Equal(t, &Error{Slow}, slow.Err())
		b.Expire(time.Minute, time.Minute)
		b.Expire(time.Minute, time.Minute)
		assert.Equal(t, []string{"interrupt", "abort"}, events, "once")
		_, err = ready.Answer(10, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute + time.Second)
		b.Expire(time.Minute, time.Minute)
		assert.Equal(t, []string{"interrupt", "abort", "close"}, events, "an answer that cannot be given up alone")
		assert.Zero(t, b.Usage().Used)
		assert.Equal(t, int64(3), b.Usage().Evicted[Slow])
		assert.Contains(t, (&Error{Slow}).Error(), "too long")
	})
}

func TestForAConnectionThatIsGoneNothingIsTaken(t *testing.T) {
	b := New(1 << 20)
	p := b.Peer(nil, 0)
	c := begin(t, p)
	p.Close()
	closed := &Error{Gone}
	assert.Equal(t, closed, c.Grow(1))
	_, err := c.Answer(1, nil)
	assert.Equal(t, closed, err)
	_, err = p.Begin(nil)
	assert.Equal(t, closed, err)
	assert.Equal(t, closed, c.Complete(0, 1))
	p.Received(1)
	c.End()
	assert.Zero(t, b.Usage().Used)
}

// Ending calls for which little has come does not lower what counts for others.
func TestWhatHasComeCountsUntilItIsKnownToBeGone(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, p *Peer){
		"calls that end": func(t *testing.T, p *Peer) { begin(t, p).End() },
		"messages of many elements": func(t *testing.T, p *Peer) {
			c := begin(t, p)
			p.Received(10)
			require.NoError(t, c.Complete(10, 40*CallBytes))
			c.End()
		},
		"compressed messages": func(t *testing.T, p *Peer) {
			c := begin(t, p)
			p.Received(10)
			require.NoError(t, c.Complete(0, 40*CallBytes))
			c.End()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(0)
			p := b.Peer(nil, 100*CallBytes)
			first, second := begin(t, p), begin(t, p)
			p.Received(150 * CallBytes)
			for range 20 {
				end(t, p)
			}
			assert.InDelta(t, 152*CallBytes, b.Usage().Used, 1000)
			second.End()
			assert.InDelta(t, 101*CallBytes, b.Usage().Used, 1, "what may be held for the one that is left")
			first.End()
			assert.Zero(t, b.Usage().Used)
		})
	}
}

func TestReasons(t *testing.T) {
	assert.Equal(t, "memory", Full.String())
	assert.Equal(t, "slow", Slow.String())
	assert.Equal(t, "gone", Gone.String())
	assert.Equal(t, "7", Reason(7).String())
}

// TestEveryByteIsGivenBack does whatever callers may, in any order.
func TestEveryByteIsGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(0, 20*CallBytes).Draw(t, "most")
		b := New(most)
		var peers []*Peer
		for range 3 {
			peers = append(peers, b.Peer(func() {}, 4*CallBytes))
		}
		var calls []*Call
		var answers []*Answer
		held := []int64{}
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }
		bytes := func() int { return rapid.IntRange(0, 3*CallBytes).Draw(t, "bytes") }
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			before := b.Usage().Evicted[Full]
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				switch c, err := peers[pick(3)].Begin(nil); {
				case err == nil:
					calls = append(calls, c)
				case b.Usage().Evicted[Full] > before+1:
					t.Fatal("others were evicted for a call that found no room all the same")
				}
			case 2:
				peers[pick(3)].Received(bytes())
			case 3:
				if len(calls) > 0 {
					_ = calls[pick(len(calls))].Complete(bytes(), bytes())
				}
			case 4:
				if len(calls) > 0 {
					if a, err := calls[pick(len(calls))].Answer(bytes(), nil); err == nil {
						answers = append(answers, a)
					}
				}
			case 5:
				if len(answers) > 0 {
					answers[pick(len(answers))].Sent()
				}
			case 6:
				if len(calls) > 0 {
					calls[pick(len(calls))].End()
				}
			case 7:
				switch n := int64(bytes()); {
				case b.Hold(n, 1):
					held = append(held, n)
				case b.Usage().Evicted[Full] > before:
					t.Fatal("calls were evicted for a lookup that found no room all the same")
				}
			case 8:
				if len(calls) > 0 {
					_ = calls[pick(len(calls))].Expect(bytes())
				}
			case 9:
				i := pick(3)
				peers[i].Close()
				peers[i] = b.Peer(func() {}, 4*CallBytes)
			}
			var sum int64
			for p := range b.peers {
				sum += p.used
				if p.received < 0 || p.used < p.received || p.pending.Load() == 0 && p.received != 0 {
					t.Fatalf("a connection holds %d bytes, of which %d are being received for %d calls", p.used, p.received, p.pending.Load())
				}
			}
			if u := b.Usage(); u.Used != sum+u.Hosts {
				t.Fatalf("%d bytes are used, %d counted", u.Used, sum+u.Hosts)
			}
		}
		for _, c := range calls {
			c.End()
		}
		for _, a := range answers {
			a.Sent()
		}
		for _, n := range held {
			b.Release(n)
		}
		for p := range b.peers {
			p.Close()
		}
		if u := b.Usage(); u.Used != 0 || u.Hosts != 0 {
			t.Fatalf("%d bytes are left", u.Used)
		}
	})
}
