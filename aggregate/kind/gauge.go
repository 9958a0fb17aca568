package kind

import (
	"encoding/binary"
	"math"
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// gaugeKind is the behaviour of gauges. The value is in the cell as the bits of a float64. A value
// with a timestamp, or one that no float64 equals, moves it into the body for good
// (gauge_stamped.go).
type gaugeKind struct{}

func (gaugeKind) Coding() window.Coding { return window.FloatCoding }

func (gaugeKind) check(s *metric.Sample) metric.Reason {
	if v := s.Float(); math.IsNaN(v) || math.IsInf(v, 0) {
		return metric.BadValue
	}
	return metric.Applied
}

func (gaugeKind) checkPreAggregated(*metric.Sample) metric.Reason { return metric.Malformed }

func (gaugeKind) Create(e *Env, h Series) {
	if e.Replicated {
		h.stamp().Store(0)
	}
	h.Cell.Value.Store(GaugeUnset)
}

func (k gaugeKind) apply(a *Applier, h Series, s *metric.Sample) metric.Reason {
	if rejected := k.check(s); rejected != metric.Applied {
		return rejected
	}
	n := s.Number()
	if a.Replicated {
		k.applyOrdered(a, h, s, n)
		return metric.Applied
	}
	v, plain := n.AsFloat()
	c, now, latest := h.Cell, a.Now.Wall.UnixNano(), latestDate(a.Now)
	switch shift := s.Op == metric.Shift; {
	case s.Dated > 0 && shift:
		a.stampedGauge(h).shift(n, DateOf(s, a.Now), latest)
	case s.Dated > 0:
		a.stampedGauge(h).assign(n, DateOf(s, a.Now), latest, 0)
	case shift && !c.shift(n):
		a.stampedGauge(h).shift(n, now, latest)
	case !shift && !(plain && c.assign(v)):
		a.stampedGauge(h).assignNow(n, now, latest, 0)
	}
	return metric.Applied
}

// stampedGauge returns the body of the gauge. The first call creates it and moves the value into
// it. Only the writer that created the body moves the value; other writers yield until it is moved.
func (a *Applier) stampedGauge(h Series) *stamped {
	c := h.Cell
	var twin *absolute
	if a.Replicated && c.Value.Load() != GaugeMoved {
		twin = a.newestTwin(h)
	}
	for c.Value.Load() != GaugeMoved {
		mine := &Body{stamped: a.newStamped()}
		if h.makeBody(func() *Body { return mine }) != mine {
			runtime.Gosched()
			continue
		}
		seen := h.arrived(a.Now).Truncate(time.Second).UnixNano() // a date may be in whole seconds
		for {
			bits, at := c.Value.Load(), seen
			if bits == GaugeUnset {
				at = 0 // any date is accepted
			}
			mine.stamped.begin(bits, at)
			if a.Replicated {
				mine.stamped.orders[0].store(h.plainOrder(bits))
				mine.stamped.hear(twin)
			}
			if c.Value.CompareAndSwap(bits, GaugeMoved) {
				return mine.stamped
			}
		}
	}
	return h.body().stamped
}

// ApplyDatedLocked is never called: apply orders gauge samples by timestamp, without a lock.
func (k gaugeKind) ApplyDatedLocked(a *Applier, h Series, _ uint32, s *metric.Sample) metric.Reason {
	return k.apply(a, h, s)
}

func (gaugeKind) ApplyPreAggregatedLocked(*Applier, Series, uint32, *metric.Sample) metric.Reason {
	return metric.Malformed
}

func (gaugeKind) RecordLocked(e *Env, h Series, tick uint32) {
	if v, set := gaugeBits(h); set {
		h.Cell.History.Record(e.Logs, window.FloatCoding, tick, v)
	}
}

func (gaugeKind) ShrinkLocked(e *Env, h Series, now uint32) {
	h.Cell.History.Shrink(e.Logs, window.FloatCoding, now)
}

func (gaugeKind) Weigh(*Env, Series) {}

func (gaugeKind) Inherit(e *Env, from, to Series, _ Remains) bool {
	v, set := gaugeBits(from)
	if set && to.Cell.Value.CompareAndSwap(GaugeUnset, v) && e.Replicated {
		raise(to.stamp(), from.orderLocked().at)
	}
	return true
}

func (gaugeKind) DateLocked(h Series) int64 {
	if body := h.body(); body != nil && h.Cell.Value.Load() == GaugeMoved {
		return body.stamped.date()
	}
	return 0
}

func (gaugeKind) begin(r *Reader) { r.gauges.begin(&r.View, r.Now, r.Env.Clock.Tick) }

func (gaugeKind) ReadLocked(r *Reader, h Series) {
	v, set := gaugeValue(h)
	switch {
	case !set:
	case r.Stat == metric.Last:
		r.plus(v)
	default:
		r.Entries = h.Cell.History.Read(r.Env.Logs, window.FloatCoding, r.Entries[:0])
		r.gauges.add(r.Entries, *h.Born)
	}
}

func (gaugeKind) value(r *Reader) (v float64, ok bool) {
	switch r.Stat {
	case metric.Mean, metric.Min, metric.Max:
		return r.gauges.stat(r.Stat)
	case metric.Last:
		return 0, false // the series was just created and has no value yet
	}
	r.unsupportedStat = true
	return 0, false
}

func (gaugeKind) SaveLocked(e *Env, dst []byte, h Series, since, _ uint32) []byte {
	return appendStamped(h.Cell.History.Append(dst, e.Logs, window.FloatCoding, since), e, h)
}

func (gaugeKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	r.History(d, window.FloatCoding, &h.Cell.History, stamp)
	head := d.Uvarint()
	at := int64(uint32(head)) * int64(time.Second)
	if head&hasNanos != 0 {
		at += int64(d.Uvarint() % uint64(time.Second))
	}
	o := order{at: millisOf(window.LifeAt(h.Cell.Seen.Load()))}
	if head&hasOrder != 0 {
		o = readOrder(d)
	}
	if head >= 2*hasNanos {
		d.Fail()
	}
	if d.Err != nil {
		return
	}
	restoreGauge(d, r.Env, h, at)
	exactGauge(d, h)
	r.restoreOrder(h, o)
}

func (gaugeKind) RestoreNumber(d *blob.Decoder, h Series) { restoreGauge(d, nil, h, 0) }

// restoreGauge makes the newest entry of the history the value. at is its date, or 0 for none.
func restoreGauge(d *blob.Decoder, e *Env, h Series, at int64) {
	c := h.Cell
	bits := c.History.Newest
	if c.History.Stamp == 0 {
		bits = GaugeUnset
	} else if v := math.Float64frombits(bits); math.IsNaN(v) || math.IsInf(v, 0) {
		d.Fail()
		return
	}
	if at == 0 {
		c.Value.Store(bits)
		return
	}
	body := h.makeBody(func() *Body { return &Body{stamped: e.newStamped()} })
	body.stamped.begin(bits, at)
	c.Value.Store(GaugeMoved)
}

// Bits above the second of a saved date.
const (
	hasOrder = 1 << (32 + iota) // the order of a replica's gauge follows
	hasNanos                    // the nanoseconds of the date follow, before the order
)

// appendStamped appends the date of a gauge's value, or 0 for none, and the order of a replica's
// gauge. If no float64 equals the value, the newest history entry is inexact, so appendStamped
// appends the exact value too.
func appendStamped(dst []byte, e *Env, h Series) []byte {
	body, head, nanos := h.body(), uint64(0), uint64(0)
	if body != nil {
		at := uint64(body.stamped.date())
		head, nanos = at/uint64(time.Second), at%uint64(time.Second)
	}
	if nanos != 0 {
		head |= hasNanos
	}
	if e.Replicated {
		head |= hasOrder
	}
	if dst = binary.AppendUvarint(dst, head); nanos != 0 {
		dst = binary.AppendUvarint(dst, nanos)
	}
	if e.Replicated {
		dst = h.orderLocked().append(dst)
	}
	if body == nil {
		return dst
	}
	n, _ := body.stamped.number()
	whole, nano, exact := n.Decimal()
	if _, plain := n.AsFloat(); plain || !exact {
		return dst
	}
	return binary.AppendVarint(binary.AppendVarint(dst, whole), int64(nano))
}

// exactGauge reads the exact value of a gauge, which is saved only if no float64 equals it.
func exactGauge(d *blob.Decoder, h Series) {
	if !d.More() {
		return
	}
	whole, nano := d.Varint(), d.Varint()
	body := h.body()
	if d.Err != nil || body == nil || nano <= -metric.Nanos || nano >= metric.Nanos {
		d.Fail()
		return
	}
	body.stamped.slots[0].store(metric.Decimal(whole, nano), uint32(body.stamped.date()%int64(time.Second)))
}

// gaugeValue returns a gauge's value, or false if the series was just created and has none yet.
func gaugeValue(h Series) (metric.Number, bool) {
	if v := h.Cell.Value.Load(); v != GaugeMoved {
		return gaugeNumber(v), v != GaugeUnset
	}
	return h.body().stamped.number()
}

// gaugeBits returns the bits of the float64 nearest to a gauge's value, or false if the series was
// just created and has none yet.
func gaugeBits(h Series) (uint64, bool) {
	v := h.Cell.Value.Load()
	if v == GaugeMoved {
		v = h.body().stamped.load()
	}
	return v, v != GaugeUnset
}

// assign sets the gauge. It returns false if the value has moved to the body.
func (c *Cell) assign(v float64) bool {
	for {
		old := c.Value.Load()
		if old == GaugeMoved {
			return false
		}
		if c.Value.CompareAndSwap(old, math.Float64bits(v)) {
			return true
		}
	}
}

// shift adds to the gauge; an unset gauge starts at 0. It returns false if the value has moved to
// the body, or must move there because no float64 equals the sum.
func (c *Cell) shift(by metric.Number) bool {
	for {
		old := c.Value.Load()
		if old == GaugeMoved {
			return false
		}
		sum, plain := shifted(gaugeNumber(old), by).AsFloat()
		if !plain {
			return false
		}
		if c.Value.CompareAndSwap(old, math.Float64bits(sum)) {
			return true
		}
	}
}

// gaugeNumber decodes the value of a gauge that has not moved to the body. An unset gauge is 0.
func gaugeNumber(bits uint64) metric.Number {
	if bits == GaugeUnset {
		return metric.Number{}
	}
	return metric.Float(math.Float64frombits(bits))
}

// shifted returns a gauge's value after a delta. Overflows are clamped to finite numbers.
func shifted(value, by metric.Number) metric.Number {
	sum := value.Plus(by)
	if v := sum.Float64(); math.IsInf(v, 0) {
		return metric.Float(finite(v))
	}
	return sum
}
