package kind

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// stamped is the body of a gauge that ever got a sample with a date, or a value that no float64
// equals. It changes the value together with its date, so a late sample never overwrites a newer
// one. Writers take no lock and allocate nothing.
//
// The head holds the index of the current slot and the second of the value in it; the slot holds
// the nanoseconds. A writer claims a free slot, writes its value there, and replaces the head by
// compare-and-swap. If that fails, the writer starts again from the new head.
//
//   - S1 Only the holder of a slot's claim writes the slot, and never while the head refers to it.
//   - S2 The value's date never decreases, so a reader never sees an older value than before. A date of before
//     the clock was set back is none.
//   - S3 The head's count changes with each replacement, so a head that returns to an earlier slot
//     and second still differs (no ABA).
//
// A 128-bit compare-and-swap would be simpler, but needs assembly for each architecture.
type stamped struct {
	head   atomic.Uint64 // date in Unix seconds << 32 | count << 8 | slot
	claims atomic.Uint32 // a bit for each claimed slot; the head's slot is claimed
	slots  [stampedSlots]stampedSlot

	// orders are the orders of the slots' values; nil without replicas. known is the newest
	// assignment of another origin that this origin heard of; nil: none.
	orders *[stampedSlots]orderSlot
	known  atomic.Pointer[absolute]
}

// stampedSlot holds a number or GaugeUnset. If form has the bit decimalForm, word is the whole
// units and the upper half of form the billionths. Otherwise word is the bits of a float64, or
// GaugeUnset. The rest of form's lower half is the nanoseconds of the date.
type stampedSlot struct{ word, form atomic.Uint64 }

const decimalForm = 1

func (s *stampedSlot) store(n metric.Number, nanos uint32) {
	whole, nano, exact := n.Decimal()
	if v, plain := n.AsFloat(); plain || !exact {
		s.word.Store(math.Float64bits(v))
		s.form.Store(uint64(nanos) << 1)
		return
	}
	s.word.Store(uint64(whole))
	s.form.Store(uint64(uint32(nano))<<32 | uint64(nanos)<<1 | decimalForm)
}

// slotNumber decodes a slot. set is false for GaugeUnset.
func slotNumber(word, form uint64) (n metric.Number, set bool) {
	if form&decimalForm == 0 {
		return gaugeNumber(word), word != GaugeUnset
	}
	return metric.Decimal(int64(word), int64(int32(form>>32))), true
}

// stampedSlots bounds the concurrent writers of a gauge: one slot is the head's, and a writer that
// finds no free slot yields.
const stampedSlots = 16

// begin sets the first value, the bits of a float64 or GaugeUnset, before g is published.
func (g *stamped) begin(bits uint64, at int64) {
	g.claims.Store(1)
	g.slots[0].word.Store(bits)
	g.slots[0].form.Store(uint64(at%int64(time.Second)) << 1)
	g.head.Store(uint64(at/int64(time.Second)) << 32)
}

// dateAt returns the date of the value that head refers to. If another writer replaces the head
// meanwhile, it may mix two dates.
func (g *stamped) dateAt(head uint64) int64 {
	nanos := uint32(g.slots[head&0xff].form.Load()) >> 1
	return int64(head>>32)*int64(time.Second) + int64(nanos)
}

// newest is dateAt, or 0 if that date is later than latest, the latest one that a value can have now.
func (g *stamped) newest(head uint64, latest int64) int64 {
	if at := g.dateAt(head); at <= latest {
		return at
	}
	return 0
}

// date returns the date of the value.
func (g *stamped) date() int64 {
	for {
		head := g.head.Load()
		if at := g.dateAt(head); g.head.Load() == head {
			return at
		}
	}
}

// number returns the value. set is false if there is none yet.
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

// load returns the bits of the float64 nearest to the value, or GaugeUnset.
func (g *stamped) load() (bits uint64) {
	n, set := g.number()
	if !set {
		return GaugeUnset
	}
	return math.Float64bits(n.Float64())
}

// assign sets the value at a date. A late sample changes nothing. latest is as in newest; millis is the date on
// the lifetime clock, which only replicas use.
func (g *stamped) assign(n metric.Number, at, latest int64, millis uint64) {
	mine := g.claim()
	for {
		head := g.head.Load()
		to, late := g.orderAt(head).assigned(millis)
		switch late = late || at < g.newest(head, latest); {
		case late && g.head.Load() == head:
			g.release(mine)
			return
		case !late && g.swing(head, mine, at, n, to):
			return
		}
	}
}

// assignNow sets the value at the present time. It always succeeds, even after the wall clock was
// set back.
func (g *stamped) assignNow(n metric.Number, now, latest int64, millis uint64) {
	mine := g.claim()
	for {
		head := g.head.Load()
		to := g.orderAt(head).assignedNow(millis, g.known.Load())
		if g.swing(head, mine, max(now, g.newest(head, latest)), n, to) {
			return
		}
	}
}

// shift adds to the value. Late samples count too, because a sum is independent of the order.
func (g *stamped) shift(by metric.Number, at, latest int64) {
	mine := g.claim()
	for {
		head := g.head.Load()
		slot := &g.slots[head&0xff]
		// If another writer replaces the head meanwhile, base may mix two values, but swing fails.
		base, _ := slotNumber(slot.word.Load(), slot.form.Load())
		to, base := g.orderAt(head).shifted(base, by, g.known.Load())
		if g.swing(head, mine, max(at, g.newest(head, latest)), shifted(base, by), to) {
			return
		}
	}
}

// swing writes a value to the claimed slot, replaces head by it, and releases head's slot. It
// returns false if the head has changed.
func (g *stamped) swing(head uint64, mine int, at int64, n metric.Number, to order) bool {
	g.slots[mine].store(n, uint32(at%int64(time.Second)))
	if g.orders != nil {
		g.orders[mine].store(to)
	}
	count := (head>>8 + 1) & 0xff_ffff
	if !g.head.CompareAndSwap(head, uint64(at/int64(time.Second))<<32|count<<8|uint64(mine)) {
		return false
	}
	g.release(int(head & 0xff))
	return true
}

// claim returns a free slot, and yields while there is none.
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
