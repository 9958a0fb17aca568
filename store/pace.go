package store

import "time"

// pace lets who answers requests have the processor while a flush works. It sleeps where it could yield: Go looks at its sockets
// once nothing is left to run, and who yields is ready to run. And it sleeps for a good while: who wakes from a short sleep comes
// before all that became ready meanwhile. On one processor, a flush of 50 ms that only yields makes requests wait for all of it.
//
// What a flush takes is spread, as it took in the last one, over a part of the interval; the rest of it is what a longer one has. The
// database's process works while its answer is waited for: that is work of the flush too.
type pace struct {
	urgent func() bool // somebody waits for the flush

	spread time.Duration // over how long the flush is to last
	until  time.Time     // when that is over
	begun  time.Time     // the slice
	worked time.Duration // in this flush
	rested time.Duration // likewise
	ratio  float64       // of rest to work
}

const (
	// mostSpread bounds over how long a flush is spread: what comes right after one has passed waits for an interval and for this.
	mostSpread = 200 * time.Millisecond
	slice      = 500 * time.Microsecond
	// shortestRest is the rest after a slice where the time for resting is over, urgentRest where somebody waits for the flush.
	shortestRest = slice / 2
	urgentRest   = slice / 10
	mostRatio    = 8
	// mostCounted bounds what one rest follows, for a slice may have waited for the disk or the processor: nothing ends a rest.
	mostCounted = 2 * slice
)

// begin begins a flush.
func (p *pace) begin() {
	p.ratio = mostRatio
	if p.worked > 0 {
		p.ratio = min(float64(p.spread)/float64(p.worked)-1, mostRatio)
	}
	p.begun, p.worked, p.rested = time.Now(), 0, 0
	p.until = p.begun.Add(p.spread)
}

func (p *pace) step() {
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

// rest is how long to rest after some work.
func (p *pace) rest(worked time.Duration, now time.Time) time.Duration {
	if p.urgent() {
		return urgentRest
	}
	return max(min(time.Duration(p.ratio*float64(min(worked, mostCounted))), p.until.Sub(now)), shortestRest)
}
