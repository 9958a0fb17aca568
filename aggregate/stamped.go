package aggregate

import (
	"math"
	"runtime"
	"sync/atomic"
)

// stamped is the body of a gauge that ever got a sample with a timestamp: its value and that timestamp
// change together, so that a late sample never overwrites a newer one, without a lock or an allocation.
//
// The head names the slot that holds the value, together with the value's timestamp. A writer claims a free slot,
// writes its value there, and swings the head over by compare-and-swap; whoever loses looks at the new head again.
//
//   - S1 A slot's value is written only by the holder of its claim, and never while the head names it.
//   - S2 The head's timestamp never goes back, so what a reader sees is never older than what it saw.
//   - S3 The head's count makes a head that was swung away and back look different (no ABA).
//
// A 128-bit compare-and-swap would do the same, but needs assembly for each architecture.
type stamped struct {
	head  atomic.Uint64 // timestamp in Unix seconds << 32 | count << 8 | slot
	slots [stampedSlots]stampedSlot
}

type stampedSlot struct {
	claimed atomic.Bool
	value   atomic.Uint64
}

// stampedSlots bounds the writers that can be at one gauge at once before one has to yield to another.
const stampedSlots = 16

// begin sets the first value, before any writer knows g.
func (g *stamped) begin(bits uint64, at uint32) {
	g.slots[0].claimed.Store(true)
	g.slots[0].value.Store(bits)
	g.head.Store(uint64(at) << 32)
}

func (g *stamped) load() (bits uint64) {
	for {
		head := g.head.Load()
		bits = g.slots[head&0xff].value.Load()
		if g.head.Load() == head {
			return bits
		}
	}
}

// assign sets the value as of a timestamp; a late one changes nothing.
func (g *stamped) assign(v float64, at uint32) {
	mine := g.claim()
	for {
		head := g.head.Load()
		if at < uint32(head>>32) {
			g.slots[mine].claimed.Store(false)
			return
		}
		if g.swing(head, mine, at, math.Float64bits(v)) {
			return
		}
	}
}

// assignNow sets the value as of now. It is never late, not even after the wall clock was set back.
func (g *stamped) assignNow(v float64, now uint32) {
	mine := g.claim()
	for {
		head := g.head.Load()
		if g.swing(head, mine, max(now, uint32(head>>32)), math.Float64bits(v)) {
			return
		}
	}
}

// shift adds to the value. A late one counts too: a sum does not depend on the order.
func (g *stamped) shift(by float64, at uint32) {
	mine := g.claim()
	for {
		head := g.head.Load()
		base := 0.0
		if bits := g.slots[head&0xff].value.Load(); bits != gaugeUnset {
			base = math.Float64frombits(bits)
		}
		if g.swing(head, mine, max(at, uint32(head>>32)), math.Float64bits(finite(base+by))) {
			return
		}
	}
}

// swing publishes the claimed slot with a value in place of head, and frees the slot that head named.
func (g *stamped) swing(head uint64, mine int, at uint32, bits uint64) bool {
	g.slots[mine].value.Store(bits)
	count := (head>>8 + 1) & 0xff_ffff
	if !g.head.CompareAndSwap(head, uint64(at)<<32|count<<8|uint64(mine)) {
		return false
	}
	g.slots[head&0xff].claimed.Store(false)
	return true
}

func (g *stamped) claim() int {
	for {
		for i := range g.slots {
			if s := &g.slots[i]; !s.claimed.Load() && s.claimed.CompareAndSwap(false, true) {
				return i
			}
		}
		runtime.Gosched()
	}
}
