package aggregate

import (
	"math"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// sizedValue reads a value behind its length: with its mark, or alike the value before it.
func (r *restorer) sizedValue(d *blob.Decoder, alike bool) {
	one := &blob.Decoder{Rest: d.Bytes(d.Uvarint())}
	if d.Err != nil {
		return
	}
	if r.value(one, alike); one.Err != nil || len(one.Rest) > 0 && r.took {
		d.Fail()
	}
}

// value reads a value and its notes. A series that is not there was refused at its birth, or came and went between
// the parts of a checkpoint.
func (r *restorer) value(d *blob.Decoder, alike bool) {
	place, state := readPlace(d), d.Uint32()
	if !alike {
		r.mark = readMark(d)
	}
	if r.takes(d, place, state); !r.took || d.Err != nil {
		return
	}
	c, stamp := &r.b.page.cells[place], r.mark.stamp
	switch r.b.page.kinds[place] {
	case metric.Counter:
		r.counter(d, place, stamp)
	case metric.Gauge:
		r.History(d, window.FloatCoding, &c.history, stamp)
		r.gauge(d, place, d.Uint32())
		r.exactGauge(d, place)
	case metric.Timer:
		timer := r.b.body(place).timer
		counted := len(d.Rest) > 0 && d.Rest[0] == timerCounted
		if counted {
			d.Byte()
			r.History(d, window.WeightCoding, &c.history, stamp)
		}
		if r.timer(d, timer); !counted && d.Err == nil {
			r.weightsOfUnits(timer, &c.history)
		}
		c.history.Stamp = max(r.CurrentTick(stamp), timer.folded, c.history.Stamp) // what was folded does not change any more
	case metric.Set:
		r.b.body(place).set.restore(d, r)
		c.history.Stamp = r.CurrentTick(stamp)
	}
}

// takes looks whether a value has a series, and gives that the value's mark.
func (r *restorer) takes(d *blob.Decoder, place, state uint32) {
	c := &r.b.page.cells[place]
	if r.took = d.Err == nil && state&live != 0 && c.state.Load() == state; !r.took {
		return
	}
	if r.Ahead(r.mark.stamp) {
		d.Fail()
		return
	}
	seen, old := r.now.RestoredStamp(r.mark.seen)
	if c.seen.Store(seen); old {
		r.b.unsaved.mark(place) // so that the next flush writes it anew
	}
	r.b.page.ttls[place].Store(r.mark.ttl)
}

func readMark(d *blob.Decoder) mark { return mark{d.Uint32(), d.Uint32(), d.Uint32()} }

// aheadUnit reports whether a unit has not come yet.
func (r *restorer) aheadUnit(span int, unit uint32) bool {
	return r.windows && uint64(unit-1)*uint64(r.t.spans[span].Stride) > uint64(r.now.Tick)+window.ClockSlack
}

func (r *restorer) gauge(d *blob.Decoder, place, at uint32) {
	c := &r.b.page.cells[place]
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
	body := r.b.makeBody(place, func() *body { return &body{stamped: new(stamped)} })
	*body.stamped = stamped{}
	body.stamped.begin(bits, at)
	c.value.Store(gaugeMoved)
}

func (r *restorer) timer(d *blob.Decoder, t *timer) {
	t.restore(d, r)
	if !d.More() {
		return
	}
	if t.pushed == nil {
		t.pushed = &pushed{units: make([][]pushedSlot, len(r.t.spans))}
	}
	r.pushed(d, t.pushed)
}

func (s *set) restore(d *blob.Decoder, r *restorer) {
	n := d.Uint32()
	if uint64(n)*9 > uint64(len(d.Rest)) {
		d.Fail()
		return
	}
	table := s.reserve(int32(n))
	for ; n > 0 && d.Err == nil; n-- {
		hash, tick := d.Uint64(), d.Uint32()
		if d.Err == nil {
			table.see(max(hash, 1), min(r.CurrentTick(tick), r.now.Tick))
		}
	}
	if d.Byte() == 0 {
		return
	}
	s.many.CompareAndSwap(nil, new(liveRegisters))
	for i := range r.Strides {
		for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
			s.restoreSlot(d, r, i)
		}
	}
}

// reserve makes room for n more members. Nobody else adds while restoring.
func (s *set) reserve(n int32) *members {
	old := s.exact.Load()
	if old.used.Load()+n <= old.room() {
		return old
	}
	slots := int32(len(old.hashes))
	for slots*4/5 < old.used.Load()+n {
		slots *= 2
	}
	table := newMembers(int(slots), nil)
	old.each(func(hash uint64, tick uint32) { table.see(hash, tick) })
	s.exact.Store(table)
	return table
}

func (s *set) restoreSlot(d *blob.Decoder, r *restorer, index int) {
	unit := d.Uint32()
	list := d.Bytes(d.Uvarint())
	if d.Err != nil || !r.windows {
		return
	}
	if r.aheadUnit(index, unit) {
		d.Fail()
		return
	}
	if !readRegisters(list, s.slotLocked(index, &r.t.spans[index], unit).registers) {
		d.Fail()
	}
}
