package kind

import (
	"encoding/binary"
	"math"
	"runtime"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// gaugeKind is the behaviour of gauges. The value is in the cell, as the bits of a float64, until
// it has a timestamp or no float64 equals it; then it is in the body (gauge_stamped.go).
type gaugeKind struct{}

func (gaugeKind) Coding() window.Coding { return window.FloatCoding }

func (gaugeKind) check(s *metric.Sample) metric.Reason {
	if v := s.Float(); math.IsNaN(v) || math.IsInf(v, 0) {
		return metric.BadValue
	}
	return metric.Applied
}

func (gaugeKind) checkPreAggregated(*metric.Sample) metric.Reason { return metric.Malformed }

func (gaugeKind) Create(_ *Env, h Series) { h.Cell.Value.Store(GaugeUnset) }

func (k gaugeKind) apply(a *Applier, h Series, s *metric.Sample) metric.Reason {
	if refused := k.check(s); refused != metric.Applied {
		return refused
	}
	n := s.Number()
	v, plain := n.AsFloat()
	c, now := h.Cell, uint32(a.Now.Wall.Unix())
	switch shift := s.Op == metric.Shift; {
	case s.Timestamp > 0 && shift:
		a.stampedGauge(h).shift(n, uint32(min(s.Timestamp, int64(now))))
	case s.Timestamp > 0:
		a.stampedGauge(h).assign(n, uint32(min(s.Timestamp, int64(now))))
	case shift && !c.shift(n):
		a.stampedGauge(h).shift(n, now)
	case !shift && !(plain && c.assign(v)):
		a.stampedGauge(h).assignNow(n, now)
	}
	return metric.Applied
}

// stampedGauge moves the value into a body with a timestamp, once in the life of a series. The
// writer that makes the body moves the value; other writers yield meanwhile.
func (a *Applier) stampedGauge(h Series) *stamped {
	c := h.Cell
	for c.Value.Load() != GaugeMoved {
		mine := &Body{stamped: new(stamped)}
		if h.makeBody(func() *Body { return mine }) != mine {
			runtime.Gosched()
			continue
		}
		seen := uint32(h.arrived(a.Now).Unix())
		for {
			bits, at := c.Value.Load(), seen
			if bits == GaugeUnset {
				at = 0 // any value is newer than none
			}
			mine.stamped.begin(bits, at)
			if c.Value.CompareAndSwap(bits, GaugeMoved) {
				return mine.stamped
			}
		}
	}
	return h.body().stamped
}

// ApplyDatedLocked is never called: gauges are ordered by their timestamps, without a lock.
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

func (gaugeKind) Inherit(_ *Env, from, to Series, _ Remains) bool {
	if v, set := gaugeBits(from); set {
		to.Cell.Value.CompareAndSwap(GaugeUnset, v)
	}
	return true
}

func (gaugeKind) TimestampLocked(h Series) int64 {
	if body := h.body(); body != nil && h.Cell.Value.Load() == GaugeMoved {
		return int64(body.stamped.head.Load() >> 32)
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
		return 0, false // created this very moment, without a value yet
	}
	r.unsupportedStat = true
	return 0, false
}

func (gaugeKind) SaveLocked(e *Env, dst []byte, h Series, since, _ uint32) []byte {
	return appendStamped(h.Cell.History.Append(dst, e.Logs, window.FloatCoding, since), h.body())
}

func (gaugeKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	r.History(d, window.FloatCoding, &h.Cell.History, stamp)
	restoreGauge(d, h, d.Uint32())
	exactGauge(d, h)
}

func (gaugeKind) RestoreNumber(d *blob.Decoder, h Series) { restoreGauge(d, h, 0) }

// restoreGauge sets the value that is the newest of the history; at: its timestamp, if it has one.
func restoreGauge(d *blob.Decoder, h Series, at uint32) {
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
	body := h.makeBody(func() *Body { return &Body{stamped: new(stamped)} })
	*body.stamped = stamped{}
	body.stamped.begin(bits, at)
	c.Value.Store(GaugeMoved)
}

// appendStamped appends the timestamp of a gauge's value where it has one, 0 where not; and the
// value where the newest note, a float64, does not say it.
func appendStamped(dst []byte, body *Body) []byte {
	if body == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, body.stamped.head.Load()>>32)
	n, _ := body.stamped.number()
	whole, nano, exact := n.Decimal()
	if _, plain := n.AsFloat(); plain || !exact {
		return dst
	}
	return binary.AppendVarint(binary.AppendVarint(dst, whole), int64(nano))
}

// exactGauge reads the value of a gauge that no float64 says, where there is one.
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
	body.stamped.slots[0].store(metric.Decimal(whole, nano))
}

// gaugeValue is a gauge's value; false: it was created this very moment and has none yet.
func gaugeValue(h Series) (metric.Number, bool) {
	if v := h.Cell.Value.Load(); v != GaugeMoved {
		return gaugeNumber(v), v != GaugeUnset
	}
	return h.body().stamped.number()
}

// gaugeBits is a gauge's value; false: it was created this very moment and has none yet.
func gaugeBits(h Series) (uint64, bool) {
	v := h.Cell.Value.Load()
	if v == GaugeMoved {
		v = h.body().stamped.load()
	}
	return v, v != GaugeUnset
}

// assign sets the gauge. False: the value has moved to the body.
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

// shift adds to the gauge; an unset one starts at 0. False: the value has moved to the body, or has
// to: no float64 says the sum.
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

// gaugeNumber is what a plain gauge holds. An unset one counts from 0.
func gaugeNumber(bits uint64) metric.Number {
	if bits == GaugeUnset {
		return metric.Number{}
	}
	return metric.Float(math.Float64frombits(bits))
}

// shifted is a gauge's value after a delta.
func shifted(value, by metric.Number) metric.Number {
	sum := value.Plus(by)
	if v := sum.Float64(); math.IsInf(v, 0) {
		return metric.Float(finite(v))
	}
	return sum
}
