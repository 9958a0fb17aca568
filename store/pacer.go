package store

import "time"

// A pacer spreads a flush over part of the flush interval, so goroutines that answer requests get
// the processor in between (docs/adr/0031). The flush sleeps rather than yields, because Go polls
// its sockets only when no goroutine is ready, and a goroutine that yields is ready. It sleeps for
// long, because a goroutine that wakes from a short sleep runs before all others that became ready
// meanwhile. On one processor, a flush of 50 ms that only yields makes requests wait for all of it.
//
// The pacer expects a flush to take as much work as the last one; a longer flush uses the rest of
// the interval. Waiting for the storage process counts as work, because that process works
// meanwhile.
type pacer struct {
	urgent func() bool // somebody waits for the flush

	spread time.Duration // how long a flush is to last
	until  time.Time     // end of that time
	begun  time.Time     // beginning of the slice
	worked time.Duration // in this flush
	rested time.Duration // in this flush
	ratio  float64       // of rest to work
}

const (
	// maxSpread bounds the spread: a change just after a flush passed its block waits for an
	// interval and the spread.
	maxSpread = 200 * time.Millisecond
	slice     = 500 * time.Microsecond
	// shortestRest follows a slice after the spread is over, urgentRest where somebody waits for
	// the flush.
	shortestRest = slice / 2
	urgentRest   = slice / 10
	maxRatio     = 8
	// maxCounted bounds the work that determines one rest: a slice may have waited for the disk or
	// the processor, and nothing ends a rest early.
	maxCounted = 2 * slice
)

// begin begins a flush.
func (p *pacer) begin() {
	p.ratio = maxRatio
	if p.worked > 0 {
		p.ratio = min(float64(p.spread)/float64(p.worked)-1, maxRatio)
	}
	p.begun, p.worked, p.rested = time.Now(), 0, 0
	p.until = p.begun.Add(p.spread)
}

// step sleeps if the slice is over. It is called after each block and document.
func (p *pacer) step() {
	now := time.Now()
	worked := now.Sub(p.begun)
	if worked < slice {
		return
	}
	p.worked += worked
	time.Sleep(p.rest(worked, now))
	p.begun = time.Now()
	p.rested += p.begun.Sub(now)
}

// rest is how long to sleep after some work.
func (p *pacer) rest(worked time.Duration, now time.Time) time.Duration {
	if p.urgent() {
		return urgentRest
	}
	return max(min(time.Duration(p.ratio*float64(min(worked, maxCounted))), p.until.Sub(now)), shortestRest)
}
