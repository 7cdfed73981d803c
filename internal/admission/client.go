package admission

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// usageMemory is the time after which the usage of a client has faded to a fraction 1/e: long
// enough that a few lookups by chance do not make a client heavy, and short enough that a heavy
// one is soon forgiven.
const usageMemory = 2 * time.Second

// client is the state of one client.
type client struct {
	who      *identity.Client
	bucket   *rate.Limiter
	inflight int
	// usage is the number of keys admitted recently, fading; it is as of asked, when the client
	// last asked.
	usage float64
	asked time.Time
}

// client returns the state of a client that asks now, under its present share.
func (c *Controller) client(who *identity.Client, now time.Time) *client {
	cl := c.clients[who.Name]
	if cl == nil {
		cl = &client{}
		c.clients[who.Name] = cl
	}
	if cl.who != who {
		cl.share(who, now)
	}
	cl.usage, cl.asked = cl.recent(now), now
	return cl
}

// share puts the share of who in force; what the bucket lacks stays missing.
func (cl *client) share(who *identity.Client, now time.Time) {
	cl.who = who
	limit, burst := rate.Limit(who.KeysPerSecond), max(who.BurstKeys, 1)
	switch {
	case who.KeysPerSecond <= 0:
		cl.bucket = nil
	case cl.bucket == nil:
		cl.bucket = rate.NewLimiter(limit, burst)
	default:
		cl.bucket.SetLimitAt(now, limit)
		cl.bucket.SetBurstAt(now, burst)
	}
}

// checkConcurrency refuses a client that has as many lookups in-flight as it may.
func (c *Controller) checkConcurrency(p *Permit) *Refusal {
	cl := p.client
	if most := cl.who.MaxConcurrent; most > 0 && cl.inflight >= most {
		return p.refusal(ReasonConcurrency, fmt.Sprintf(
			"client %s has %d lookups in-flight, as many as it may (max_concurrent); send fewer at a time", cl.who.Name, cl.inflight))
	}
	return nil
}

// checkRate refuses a lookup of more keys than are in the bucket. A lookup of more than the
// bucket can hold passes when it is full: otherwise it could never pass.
func (c *Controller) checkRate(p *Permit) *Refusal {
	cl := p.client
	if cl.bucket == nil {
		return nil
	}
	// Not as of p.began: a lookup may have waited since, and the bucket knows no past.
	missing := float64(min(p.ask.Keys, cl.bucket.Burst())) - cl.bucket.TokensAt(time.Now())
	// At a tiny rate it is more than a Duration can hold.
	wait := time.Duration(min(missing/float64(cl.bucket.Limit()), math.MaxInt32) * float64(time.Second))
	if wait <= 0 {
		return nil
	}
	return &Refusal{ReasonRate, wait, fmt.Sprintf(
		"client %s has asked for more than its %g keys a second; ask for these again in %s",
		cl.who.Name, cl.who.KeysPerSecond, wait.Round(time.Millisecond))}
}

// Charge takes keys from the share of a client for a request that asks no host: to explain
// lookups or to list tables costs the proxy about as much as to read as many keys. The error is a
// *Refusal. A nil client is identity.Anonymous; a nil Controller refuses nothing.
func (c *Controller) Charge(who *identity.Client, keys int) error {
	if c == nil {
		return nil
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limits.Enabled {
		return nil
	}
	who = cmp.Or(who, identity.Anonymous)
	p := &Permit{client: c.client(who, now), ask: Ask{Keys: keys}, began: now}
	if r := c.checkRate(p); r != nil {
		c.shed(who, classOf(who.Priority), r)
		return r
	}
	p.client.spend(keys)
	return nil
}

// spend takes keys from the bucket. If it has fewer, the next lookups wait for what is missing.
func (cl *client) spend(keys int) {
	if cl.bucket == nil {
		return
	}
	now := time.Now()
	for burst := cl.bucket.Burst(); keys > 0; keys -= burst {
		cl.bucket.ReserveN(now, min(keys, burst))
	}
}

// recent returns the usage as of now.
func (cl *client) recent(now time.Time) float64 {
	return cl.usage * math.Exp(-now.Sub(cl.asked).Seconds()/usageMemory.Seconds())
}

// idle reports whether the client can be forgotten without an advantage to it.
func (cl *client) idle(now time.Time) bool {
	return cl.inflight == 0 && now.Sub(cl.asked) > longWindow*time.Second &&
		(cl.bucket == nil || cl.bucket.TokensAt(now) >= float64(cl.bucket.Burst()))
}
