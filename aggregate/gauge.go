package aggregate

import (
	"encoding/binary"
	"math"
	"runtime"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// gaugeKind is the behaviour of gauges. A gauge's value is in its cell, as the bits of a float64, until it needs a timestamp or is a
// number that no float64 is; then it is in the body (stamped.go).
type gaugeKind struct{}

func (gaugeKind) coding() window.Coding { return window.FloatCoding }

func (gaugeKind) check(s *metric.Sample) metric.Reason {
	if v := s.Float(); math.IsNaN(v) || math.IsInf(v, 0) {
		return metric.BadValue
	}
	return metric.Applied
}

func (gaugeKind) checkPreAggregated(*metric.Sample) metric.Reason { return metric.Malformed }

func (gaugeKind) create(_ *env, h handle) { h.cell.value.Store(gaugeUnset) }

func (k gaugeKind) apply(a *applier, h handle, s *metric.Sample) metric.Reason {
	if refused := k.check(s); refused != metric.Applied {
		return refused
	}
	n := s.Number()
	v, plain := n.AsFloat()
	c, now := h.cell, uint32(a.now.Wall.Unix())
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

// stampedGauge moves a gauge's value into a body that holds its timestamp too, once in the series' life. The writer
// that makes the body moves the value; another that comes in that instant yields to it.
func (a *applier) stampedGauge(h handle) *stamped {
	c := h.cell
	for c.value.Load() != gaugeMoved {
		mine := &body{stamped: new(stamped)}
		if h.makeBody(func() *body { return mine }) != mine {
			runtime.Gosched()
			continue
		}
		seen := uint32(h.arrived(a.now).Unix())
		for {
			bits, at := c.value.Load(), seen
			if bits == gaugeUnset {
				at = 0 // any value is newer than none
			}
			mine.stamped.begin(bits, at)
			if c.value.CompareAndSwap(bits, gaugeMoved) {
				return mine.stamped
			}
		}
	}
	return h.body().stamped
}

// applyDatedLocked is never called: gauges are ordered by their timestamps, without a lock.
func (k gaugeKind) applyDatedLocked(a *applier, h handle, _ uint32, s *metric.Sample) metric.Reason {
	return k.apply(a, h, s)
}

func (gaugeKind) applyPreAggregatedLocked(*applier, handle, uint32, *metric.Sample) metric.Reason {
	return metric.Malformed
}

func (gaugeKind) recordLocked(e *env, h handle, tick uint32) {
	if v, set := gaugeBits(h); set {
		h.cell.history.Record(e.logs, window.FloatCoding, tick, v)
	}
}

func (gaugeKind) shrinkLocked(e *env, h handle, now uint32) {
	h.cell.history.Shrink(e.logs, window.FloatCoding, now)
}

func (gaugeKind) weigh(*env, handle) {}

func (gaugeKind) inherit(_ *env, from, to handle, _ remains) bool {
	if v, set := gaugeBits(from); set {
		to.cell.value.CompareAndSwap(gaugeUnset, v)
	}
	return true
}

func (gaugeKind) timestampLocked(h handle) int64 {
	if body := h.body(); body != nil && h.cell.value.Load() == gaugeMoved {
		return int64(body.stamped.head.Load() >> 32)
	}
	return 0
}

func (gaugeKind) begin(r *reader) { r.levels.begin(&r.view, r.Now, r.clock.Tick) }

func (gaugeKind) readLocked(r *reader, h handle) {
	v, set := gaugeValue(h)
	switch {
	case !set:
	case r.stat == metric.Last:
		r.plus(v)
	default:
		r.Entries = h.cell.history.Read(r.logs, window.FloatCoding, r.Entries[:0])
		r.levels.add(r.Entries, *h.born)
	}
}

func (gaugeKind) value(r *reader) (v float64, ok bool) {
	switch r.stat {
	case metric.Mean, metric.Min, metric.Max:
		return r.levels.stat(r.stat)
	case metric.Last:
		return 0, false // created this very moment, without a value yet
	}
	r.unread = true
	return 0, false
}

func (gaugeKind) saveLocked(e *env, dst []byte, h handle, since, _ uint32) []byte {
	return appendStamped(h.cell.history.Append(dst, e.logs, window.FloatCoding, since), h.body())
}

func (gaugeKind) restore(r *restoring, d *blob.Decoder, h handle, stamp uint32) {
	r.History(d, window.FloatCoding, &h.cell.history, stamp)
	restoreGauge(d, h, d.Uint32())
	exactGauge(d, h)
}

func (gaugeKind) restoreNumber(d *blob.Decoder, h handle) { restoreGauge(d, h, 0) }

// restoreGauge sets the value that is the newest of the history; at: its timestamp, if it has one.
func restoreGauge(d *blob.Decoder, h handle, at uint32) {
	c := h.cell
	bits := c.history.Newest
	if c.history.Stamp == 0 {
		bits = gaugeUnset
	} else if v := math.Float64frombits(bits); math.IsNaN(v) || math.IsInf(v, 0) {
		d.Fail()
		return
	}
	if at == 0 {
		c.value.Store(bits)
		return
	}
	body := h.makeBody(func() *body { return &body{stamped: new(stamped)} })
	*body.stamped = stamped{}
	body.stamped.begin(bits, at)
	c.value.Store(gaugeMoved)
}

// appendStamped appends the timestamp of a gauge's value where it has one, 0 where not; and the value where the newest note, a
// float64, does not say it.
func appendStamped(dst []byte, body *body) []byte {
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
func exactGauge(d *blob.Decoder, h handle) {
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
func gaugeValue(h handle) (metric.Number, bool) {
	if v := h.cell.value.Load(); v != gaugeMoved {
		return gaugeNumber(v), v != gaugeUnset
	}
	return h.body().stamped.number()
}

// gaugeBits is a gauge's value; false: it was created this very moment and has none yet.
func gaugeBits(h handle) (uint64, bool) {
	v := h.cell.value.Load()
	if v == gaugeMoved {
		v = h.body().stamped.load()
	}
	return v, v != gaugeUnset
}

// assign sets the gauge. False: the value has moved to the body.
func (c *cell) assign(v float64) bool {
	for {
		old := c.value.Load()
		if old == gaugeMoved {
			return false
		}
		if c.value.CompareAndSwap(old, math.Float64bits(v)) {
			return true
		}
	}
}

// shift adds to the gauge; an unset one starts at 0. False: the value has moved to the body, or has to: no float64 says the sum.
func (c *cell) shift(by metric.Number) bool {
	for {
		old := c.value.Load()
		if old == gaugeMoved {
			return false
		}
		sum, plain := shifted(gaugeNumber(old), by).AsFloat()
		if !plain {
			return false
		}
		if c.value.CompareAndSwap(old, math.Float64bits(sum)) {
			return true
		}
	}
}

// gaugeNumber is what a plain gauge holds. An unset one counts from 0.
func gaugeNumber(bits uint64) metric.Number {
	if bits == gaugeUnset {
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
