package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A process that stood still, frozen or moved to another machine, has what others received before. It
// answers nothing until it has heard again each origin that it heard then.

const (
	pulseEvery = beatEvery / 2
	// lateBy is the lateness of a tick from which the process stood still.
	lateBy = time.Second
	// hearsWithin bounds the wait for other origins.
	hearsWithin = 2 * time.Second
	// freshWithin is the delay up to which a heartbeat shows what its origin has now.
	freshWithin = beatEvery
)

// pulse notices that the process stood still. One goroutine ticks; any goroutine asks.
type pulse struct {
	last    atomic.Int64 // the newest tick: nanoseconds since the replica's start; 0: none
	waiting atomic.Bool  // for other origins

	mu           sync.Mutex // guards the fields below
	began, ended time.Time  // of the newest standstill
}

// pulseLoop does nothing else, so a late tick means that the process didn't run.
func (r *Replica) pulseLoop(ctx context.Context) {
	every := time.NewTicker(pulseEvery)
	defer every.Stop()
	for {
		r.pulseTick(r.now())
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// pulseTick follows the one before after pulseEvery.
func (r *Replica) pulseTick(now time.Time) {
	p := &r.pulse
	if still, late := r.stoodStill(now); late {
		r.log.Warn("this process stood still; it answers no query until it has heard the other replicas again",
			"for", still.Round(time.Millisecond), "at most", hearsWithin)
		p.mu.Lock()
		if !p.waiting.Load() {
			p.began = now.Add(-still)
		}
		p.ended = now
		p.waiting.Store(true) // before the next reader finds that the last tick isn't late
		p.mu.Unlock()
	}
	p.last.Store(max(int64(now.Sub(r.started)), 1))
}

// stoodStill reports whether the next tick is late, and the time since the last one.
func (r *Replica) stoodStill(now time.Time) (time.Duration, bool) {
	last := r.pulse.last.Load()
	still := now.Sub(r.started) - time.Duration(last)
	return still, last > 0 && still >= pulseEvery+lateBy
}

// caughtUp reports whether the process has not stood still since it heard the other origins, or the wait
// for them is over.
func (r *Replica) caughtUp(now time.Time) (bool, string) {
	p := &r.pulse
	if still, late := r.stoodStill(now); late {
		return false, fmt.Sprintf("this process stood still for %v", still.Round(time.Millisecond))
	}
	if !p.waiting.Load() {
		return true, ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unheard := r.unheardSince(p.began, p.ended)
	if unheard == "" || now.Sub(p.ended) >= hearsWithin {
		p.waiting.Store(false)
		return true, ""
	}
	return false, fmt.Sprintf("this process stood still for %v and has not heard replica %s again",
		p.ended.Sub(p.began).Round(time.Millisecond), unheard)
}

// unheardSince names an origin that was heard when this process stood still, and not since; empty: there is
// none.
func (r *Replica) unheardSince(began, ended time.Time) string {
	for _, f := range r.origins.sorted() {
		wasLive := f.heard.Load() >= int64(began.Sub(r.started)-standsAfter) && !f.left.Load()
		if wasLive && f.fresh.Load() < int64(ended.Sub(r.started)) {
			return f.key.name
		}
	}
	return ""
}
