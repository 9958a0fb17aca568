package aggregate

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A page holds the times to live that pushes gave, in 32 bits each: seconds, or milliseconds above ttlMillis where a time below
// fractionsBelow has a fraction. A longer fraction is rounded up.
const (
	ttlForever     = math.MaxUint32
	ttlLongest     = ttlForever - 1 // 136 years
	ttlMillis      = 0xf800_0000
	fractionsBelow = 24 * time.Hour
)

func ttlDuration(kept uint32) time.Duration {
	if kept > ttlMillis && kept < ttlLongest {
		return time.Duration(kept-ttlMillis) * time.Millisecond
	}
	return time.Duration(kept) * time.Second
}

func (p *page) setTTL(place uint32, ttl time.Duration) {
	switch {
	case ttl == 0:
	case ttl == metric.Forever:
		p.ttls[place].Store(ttlForever)
	case ttl < fractionsBelow && ttl%time.Second != 0:
		p.ttls[place].Store(ttlMillis + uint32((ttl+time.Millisecond-1)/time.Millisecond))
	default:
		p.ttls[place].Store(uint32(min(max((ttl+time.Second-1)/time.Second, 1), ttlLongest)))
	}
}

// The sweep comes by once a minute. A series with a time to live of its own is not left until then: its name and its place
// among the limits are free as soon as readers do not find it any more. So each page knows when to look.

// expectEnd says that a series that has just been touched may end when its time to live is over.
func (p *page) expectEnd(place uint32, now window.Moment) {
	if own := p.ttls[place].Load(); own != 0 && own != ttlForever {
		p.lookAt(window.StampOf(now.Life + ttlDuration(own)))
	}
}

// lookAt says that a series may end at a stamp.
func (p *page) lookAt(end window.LifeStamp) {
	for next := p.nextEnd.Load(); end < next && !p.nextEnd.CompareAndSwap(next, end); {
		next = p.nextEnd.Load()
	}
}

// endOf is when a series that lives on ends by a time to live of its own.
func (b *block) endOf(place uint32, now window.Moment) window.LifeStamp {
	own := b.page.ttls[place].Load()
	if own == 0 || own == ttlForever {
		return noEnd
	}
	return window.StampOf(now.Life - max(b.idleFor(place, now), 0) + ttlDuration(own))
}

// sweepEnds sweeps the blocks in which a series may have ended by a time to live of its own.
func (t *Table) sweepEnds(now window.Moment, pace *pace) {
	for i := range t.blocks.made.Load() {
		if window.LifeAt(t.blocks.pageAt(i).nextEnd.Load()) < now.Life {
			t.sweepBlock(i, now, pace)
		}
	}
}

// noEnd is the nextEnd of a page of which no series ends by a time to live of its own.
const noEnd = math.MaxUint32
