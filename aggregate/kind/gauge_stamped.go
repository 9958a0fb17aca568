package kind

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
)

// stamped is the body of a gauge that ever got a sample with a timestamp, or a value that no
// float64 says exactly. Its value and the timestamp change together, so that a late sample never
// overwrites a newer one, without a lock or an allocation.
//
// The head names the slot that holds the value, together with the value's timestamp. A writer
// claims a free slot, writes its value there, and swings the head over by compare-and-swap; whoever
// loses looks at the new head again.
//
//   - S1 A slot's value is written only by the holder of its claim, and never while the head names
//     it.
//   - S2 The head's timestamp never goes back, so what a reader sees is never older than what it
//     saw.
//   - S3 The head's count makes a head that was swung away and back look different (no ABA).
//
// A 128-bit compare-and-swap would do the same, but needs assembly for each architecture.
type stamped struct {
	head   atomic.Uint64 // timestamp in Unix seconds << 32 | count << 8 | slot
	claims atomic.Uint32 // a bit for each slot
	slots  [stampedSlots]stampedSlot
}

// stampedSlot holds a number, or nothing yet: the bits of a float64 or gaugeUnset; or, where form
// has decimalForm, whole units, and the billionths in form's upper half.
type stampedSlot struct{ word, form atomic.Uint64 }

const decimalForm = 1

func (s *stampedSlot) store(n metric.Number) {
	whole, nano, exact := n.Decimal()
	if v, plain := n.AsFloat(); plain || !exact {
		s.word.Store(math.Float64bits(v))
		s.form.Store(0)
		return
	}
	s.word.Store(uint64(whole))
	s.form.Store(uint64(uint32(nano))<<32 | decimalForm)
}

// slotNumber is what a slot holds, and whether that was set.
func slotNumber(word, form uint64) (n metric.Number, set bool) {
	if form&decimalForm == 0 {
		return gaugeNumber(word), word != GaugeUnset
	}
	return metric.Decimal(int64(word), int64(int32(form>>32))), true
}

// stampedSlots bounds the writers that can be at one gauge at once before one has to yield to
// another.
const stampedSlots = 16

// begin sets the first value, the bits of a float64 or gaugeUnset, before any writer knows g.
func (g *stamped) begin(bits uint64, at uint32) {
	g.claims.Store(1)
	g.slots[0].word.Store(bits)
	g.slots[0].form.Store(0)
	g.head.Store(uint64(at) << 32)
}

// number is the value; false: there is none yet.
func (g *stamped) number() (n metric.Number, set bool) {
	for {
		head := g.head.Load()
		slot := &g.slots[head&0xff]
		word, form := slot.word.Load(), slot.form.Load()
		if g.head.Load() == head {
			return slotNumber(word, form)
		}
	}
}

// load is the bits of the float64 that is nearest to the value, or gaugeUnset.
func (g *stamped) load() (bits uint64) {
	n, set := g.number()
	if !set {
		return GaugeUnset
	}
	return math.Float64bits(n.Float64())
}

// assign sets the value as of a timestamp; a late one changes nothing.
func (g *stamped) assign(n metric.Number, at uint32) {
	mine := g.claim()
	for {
		head := g.head.Load()
		if at < uint32(head>>32) {
			g.release(mine)
			return
		}
		if g.swing(head, mine, at, n) {
			return
		}
	}
}

// assignNow sets the value as of now. It is never late, not even after the wall clock was set back.
func (g *stamped) assignNow(n metric.Number, now uint32) {
	mine := g.claim()
	for {
		head := g.head.Load()
		if g.swing(head, mine, max(now, uint32(head>>32)), n) {
			return
		}
	}
}

// shift adds to the value. A late one counts too: a sum does not depend on the order.
func (g *stamped) shift(by metric.Number, at uint32) {
	mine := g.claim()
	for {
		head := g.head.Load()
		slot := &g.slots[head&0xff]
		base, _ := slotNumber(slot.word.Load(), slot.form.Load()) // of two values if the head has moved on: then the swing fails
		if g.swing(head, mine, max(at, uint32(head>>32)), shifted(base, by)) {
			return
		}
	}
}

// swing publishes the claimed slot with a value in place of head, and frees the slot that head
// named.
func (g *stamped) swing(head uint64, mine int, at uint32, n metric.Number) bool {
	g.slots[mine].store(n)
	count := (head>>8 + 1) & 0xff_ffff
	if !g.head.CompareAndSwap(head, uint64(at)<<32|count<<8|uint64(mine)) {
		return false
	}
	g.release(int(head & 0xff))
	return true
}

func (g *stamped) claim() int {
	for {
		free := ^g.claims.Load() & (1<<stampedSlots - 1)
		if free == 0 {
			runtime.Gosched()
			continue
		}
		if bit := free & -free; g.claims.Or(bit)&bit == 0 {
			return bits.TrailingZeros32(bit)
		}
	}
}

func (g *stamped) release(slot int) { g.claims.And(^uint32(1 << slot)) }
