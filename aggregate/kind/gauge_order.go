package kind

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Samples of one gauge arrive at several origins, and all replicas must find the same newest value.
// So a replica keeps an order with each gauge's value (docs/adr/0052):
//
//   - O1 After an assignment at this origin, at is its moment in milliseconds of the origin's
//     lifetime clock, and follows is 0. The value includes the origin's later shifts.
//   - O2 After a shift of an assignment at another origin, follows is that assignment's at as its
//     origin keeps it, and at is that moment on the own lifetime clock. shifts is the sum of the
//     origin's shifts since. The value is the assigned one, as far as known, plus shifts.
//   - O3 If no assignment is known, at and follows are 0, and shifts is the value.
//
// A gauge that was assigned only, without a timestamp, has its at in the block's stamps: eight
// bytes. The first shift or timestamp moves the value and its order into the body, where they
// change together (gauge_stamped.go). A plain assignment writes the value, then the stamp; so a
// value may show with the stamp before it until the next sample or flush, never the reverse.
type order struct {
	at, follows uint64
	shifts      metric.Number // 0 for O1
}

// absolute is the newest assignment at another origin.
type absolute struct {
	raw   uint64 // at, as that origin keeps it
	at    uint64 // the same moment on the own lifetime clock
	value metric.Number
	first bool // its origin's name sorts before the own one, which decides if the moments are equal
}

// newer reports whether the assignment is newer than one of this origin.
func (a *absolute) newer(at uint64) bool { return a.at > at || a.at == at && a.first }

// orderSlot is an order in a body. Writers and readers use it as a slot of the value.
type orderSlot struct {
	at, follows atomic.Uint64
	shifts      stampedSlot
}

func (s *orderSlot) store(o order) {
	s.at.Store(o.at)
	s.follows.Store(o.follows)
	s.shifts.store(o.shifts, 0)
}

func (s *orderSlot) load() order {
	shifts, _ := slotNumber(s.shifts.word.Load(), s.shifts.form.Load())
	return order{s.at.Load(), s.follows.Load(), shifts}
}

// stamps holds at for the gauges of a block.
type stamps [BlockSeries]atomic.Uint64

// stamp returns the series' place in the stamps of its block.
func (h Series) stamp() *atomic.Uint64 {
	all := h.Bodies.stamps.Load()
	if all == nil {
		h.Bodies.stamps.CompareAndSwap(nil, new(stamps))
		all = h.Bodies.stamps.Load()
	}
	return &all[h.Place]
}

// raise sets a stamp, which never decreases.
func raise(at *atomic.Uint64, to uint64) {
	for old := at.Load(); old < to && !at.CompareAndSwap(old, to); {
		old = at.Load()
	}
}

// RaiseStamp raises NewestStamp to a stamp of another origin. ahead is added to it, in
// milliseconds.
func (e *Env) RaiseStamp(at uint64, ahead int64) {
	raise(&e.NewestStamp, uint64(max(int64(at)+ahead, 0)))
}

func millisOf(life time.Duration) uint64 { return uint64(max(life, 0) / time.Millisecond) }

// millisAt converts a date to the lifetime clock. A future date is the present.
func (a *Applier) millisAt(date time.Time) uint64 {
	return millisOf(min(date.Sub(a.Now.Epoch), a.Now.Life))
}

// newStamped returns the body for a gauge, with orders if the table is a replica.
func (e *Env) newStamped() *stamped {
	g := new(stamped)
	if e.Replicated {
		g.orders = new([stampedSlots]orderSlot)
		e.Moved.Store(true)
	}
	return g
}

// millisNow returns the stamp of an assignment at the present time. It is later than all stamps
// that the table has heard of, so a client that moves from an origin whose clock is ahead still
// assigns the newest value (a hybrid logical clock, Kulkarni et al. 2014). Stamps beyond the reach
// of clocks are ignored: they are damaged, or an origin's clock is being corrected.
func (a *Applier) millisNow() uint64 {
	millis := millisOf(a.Now.Life)
	if heard := a.NewestStamp.Load(); heard >= millis && heard < millis+farAhead {
		return heard + 1
	}
	return millis
}

const farAhead = uint64(time.Minute / time.Millisecond)

// applyOrdered is apply for replicas.
func (gaugeKind) applyOrdered(a *Applier, h Series, s *metric.Sample, n metric.Number) {
	v, plain := n.AsFloat()
	at, latest, millis := a.Now.Wall.UnixNano(), latestDate(a.Now), a.millisNow()
	if s.Arrived != 0 {
		millis = a.millisAt(time.Unix(0, s.Arrived))
	}
	dated := s.Dated > 0
	if dated {
		at, millis = DateOf(s, a.Now), a.millisAt(s.Date())
	}
	switch {
	case s.Op == metric.Shift:
		a.stampedGauge(h).shift(n, at, latest)
	case dated:
		a.stampedGauge(h).assign(n, at, latest, millis)
	case plain && h.Cell.assign(v):
		raise(h.stamp(), millis)
	default:
		a.stampedGauge(h).assignNow(n, at, latest, millis)
	}
}

// orderAt returns the order of the value that head refers to. If another writer replaces the head
// meanwhile, it may mix two orders.
func (g *stamped) orderAt(head uint64) order {
	if g.orders == nil {
		return order{}
	}
	return g.orders[head&0xff].load()
}

// assigned returns the order after a client-dated assignment. late: an assignment at another origin
// is newer, and the value follows it already.
func (o order) assigned(millis uint64) (_ order, late bool) {
	if o.follows != 0 && millis < o.at {
		return o, true
	}
	return order{at: max(o.at, millis)}, false
}

// assignedNow returns the order after an assignment at the present time, which is newer than all
// that are known, whatever the clocks say.
func (o order) assignedNow(millis uint64, known *absolute) order {
	if o.follows != 0 {
		millis = max(millis, o.at+1)
	}
	if known != nil {
		millis = max(millis, known.at+1)
	}
	return order{at: max(o.at, millis)}
}

// shifted returns the order after a shift, and the value that the shift is added to.
func (o order) shifted(value, by metric.Number, known *absolute) (_ order, base metric.Number) {
	switch {
	case known != nil && known.raw != o.follows && known.newer(o.at):
		return order{at: known.at, follows: known.raw, shifts: by}, known.value
	case o.follows == 0 && o.at != 0:
		return o, value
	}
	o.shifts = shifted(o.shifts, by)
	return o, value
}

// hear remembers an assignment at another origin if it is the newest.
func (g *stamped) hear(a *absolute) {
	if a == nil {
		return
	}
	for {
		before := g.known.Load()
		if before != nil && (before.at > a.at || *before == *a) || g.known.CompareAndSwap(before, a) {
			return
		}
	}
}

// newestTwin returns the newest assignment of the gauge at other origins, or nil.
func (a *Applier) newestTwin(h Series) (newest *absolute) {
	if a.EachTwin == nil {
		return nil
	}
	a.EachTwin(h, func(twin Series, from Elsewhere) {
		if one := twin.absoluteLocked(from); one != nil && (newest == nil || one.at > newest.at) {
			newest = one
		}
	})
	return newest
}

// absoluteLocked returns the gauge's assignment at its origin, or nil if it has none.
func (h Series) absoluteLocked(from Elsewhere) *absolute {
	part, some := GaugePartLocked(h)
	if !some || part.Follows != 0 || part.At == 0 {
		return nil
	}
	return &absolute{raw: part.At, at: uint64(max(int64(part.At)+from.Ahead, 1)), value: part.Value, first: from.First}
}

// plainOrder is the order of a value that is in the cell.
func (h Series) plainOrder(bits uint64) order {
	if bits == GaugeUnset {
		return order{}
	}
	at := uint64(0)
	if all := h.Bodies.stamps.Load(); all != nil {
		at = all[h.Place].Load()
	}
	if at == 0 { // the stamp is about to be written, or the table was no replica
		at = millisOf(window.LifeAt(h.Cell.Seen.Load()))
	}
	return order{at: at}
}

// orderLocked returns the order of a gauge's value.
func (h Series) orderLocked() order {
	bits := h.Cell.Value.Load()
	if bits != GaugeMoved {
		return h.plainOrder(bits)
	}
	g := h.body().stamped
	if g.orders == nil {
		return order{at: millisOf(window.LifeAt(h.Cell.Seen.Load()))}
	}
	for {
		head := g.head.Load()
		if o := g.orderAt(head); g.head.Load() == head {
			return o
		}
	}
}

// append appends the order of a gauge. Its sum of shifts is omitted after an assignment (O1).
func (o order) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, o.at), o.follows)
	if o.at != 0 && o.follows == 0 {
		return dst
	}
	whole, nano, exact := o.shifts.Decimal()
	if !exact {
		return blob.AppendFloat(binary.AppendVarint(append(dst, 0), metric.Nanos), o.shifts.Float64())
	}
	return binary.AppendVarint(binary.AppendVarint(dst, whole), int64(nano))
}

func readOrder(d *blob.Decoder) order {
	o := order{at: d.Uvarint(), follows: d.Uvarint()}
	if max(o.at, o.follows) > latestStamp {
		d.Fail()
	}
	if o.at != 0 && o.follows == 0 {
		return o
	}
	whole, nano := d.Varint(), d.Varint()
	switch {
	case nano == metric.Nanos:
		v := d.Float()
		if math.IsNaN(v) || math.IsInf(v, 0) {
			d.Fail()
		}
		o.shifts = metric.Float(v)
	case nano <= -metric.Nanos || nano > metric.Nanos:
		d.Fail()
	default:
		o.shifts = metric.Decimal(whole, nano)
	}
	return o
}

// latestStamp bounds saved stamps, so that sums with offsets between clocks cannot overflow.
const latestStamp = uint64(window.LongestLife / time.Millisecond)

// restoreOrder enters the order of a restored gauge.
func (r *Restorer) restoreOrder(h Series, o order) {
	if !r.Replicated {
		return
	}
	raise(&r.NewestStamp, o.at)
	if h.Cell.Value.Load() == GaugeMoved {
		h.body().stamped.orders[0].store(o)
		return
	}
	h.stamp().Store(o.at)
}

// StampLocked returns the stamp of a gauge without a body.
func StampLocked(h Series) uint64 { return h.orderLocked().at }

// RestoreStamp enters the stamp of a restored gauge without a body. The state may be newer than the
// delta with the stamp. Zero stands for the time at which the newest sample was recorded.
func (r *Restorer) RestoreStamp(h Series, at uint64) {
	if at == 0 {
		at = millisOf(window.LifeAt(h.Cell.Seen.Load()))
	}
	at = min(at, latestStamp)
	raise(h.stamp(), at)
	raise(&r.NewestStamp, at)
}
