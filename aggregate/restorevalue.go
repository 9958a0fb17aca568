package aggregate

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// sizedValue reads a value behind its length: with its mark, or alike the value before it.
func (r *restorer) sizedValue(d *decoder, alike bool) {
	one := &decoder{rest: d.bytes(d.uvarint())}
	if d.err != nil {
		return
	}
	if r.value(one, alike); one.err != nil || len(one.rest) > 0 && r.took {
		d.fail()
	}
}

// value reads a value and its notes. A series that is not there was refused at its birth, or came and went between
// the parts of a checkpoint.
func (r *restorer) value(d *decoder, alike bool) {
	place, state := readPlace(d), d.uint32()
	if !alike {
		r.mark = readMark(d)
	}
	if r.takes(d, place, state); !r.took || d.err != nil {
		return
	}
	c, stamp := &r.b.page.cells[place], r.mark.stamp
	switch r.b.page.kinds[place] {
	case metric.Counter:
		r.counter(d, place, stamp)
	case metric.Gauge:
		r.past(d, floatCoding, &c.past, stamp)
		r.gauge(d, place, d.uint32())
		r.exactGauge(d, place)
	case metric.Timer:
		timer := r.b.body(place).timer
		counted := len(d.rest) > 0 && d.rest[0] == timerCounted
		if counted {
			d.byte()
			r.past(d, weightCoding, &c.past, stamp)
		}
		if r.timer(d, timer); !counted && d.err == nil {
			r.weightsOfUnits(timer, &c.past)
		}
		c.past.stamp = max(r.tick(stamp), timer.folded, c.past.stamp) // what was folded does not change any more
	case metric.Set:
		r.b.body(place).set.restore(d, r)
		c.past.stamp = r.tick(stamp)
	}
}

// takes looks whether a value has a series, and gives that the value's mark.
func (r *restorer) takes(d *decoder, place, state uint32) {
	c := &r.b.page.cells[place]
	if r.took = d.err == nil && state&live != 0 && c.state.Load() == state; !r.took {
		return
	}
	if r.ahead(r.mark.stamp) {
		d.fail()
		return
	}
	seen, old := r.now.restoredStamp(r.mark.seen)
	if c.seen.Store(seen); old {
		r.b.unsaved.mark(place) // so that the next flush writes it anew
	}
	r.b.page.ttls[place].Store(r.mark.ttl)
}

func readMark(d *decoder) mark { return mark{d.uint32(), d.uint32(), d.uint32()} }

// aheadUnit reports whether a unit has not come yet.
func (r *restorer) aheadUnit(span int, unit uint32) bool {
	return r.windows && uint64(unit-1)*uint64(r.t.spans[span].stride) > uint64(r.now.tick)+clockSlack
}

func (r *restorer) gauge(d *decoder, place, at uint32) {
	c := &r.b.page.cells[place]
	bits := c.past.rolled
	if c.past.stamp == 0 {
		bits = gaugeUnset
	} else if v := math.Float64frombits(bits); math.IsNaN(v) || math.IsInf(v, 0) {
		d.fail()
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

func (r *restorer) timer(d *decoder, t *timer) {
	t.restore(d, r)
	if !d.more() {
		return
	}
	if t.pushed == nil {
		t.pushed = &pushed{past: make([][]pushedSlot, len(r.t.spans))}
	}
	r.pushed(d, t.pushed)
}

func (s *set) restore(d *decoder, r *restorer) {
	n := d.uint32()
	if uint64(n)*9 > uint64(len(d.rest)) {
		d.fail()
		return
	}
	table := s.reserve(int32(n))
	for ; n > 0 && d.err == nil; n-- {
		hash, tick := d.uint64(), d.uint32()
		if d.err == nil {
			table.see(max(hash, 1), min(r.tick(tick), r.now.tick))
		}
	}
	if d.byte() == 0 {
		return
	}
	s.many.CompareAndSwap(nil, new(liveRegisters))
	for i := range r.strides {
		for n := d.uvarint(); n > 0 && d.err == nil; n-- {
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

func (s *set) restoreSlot(d *decoder, r *restorer, index int) {
	unit := d.uint32()
	list := d.bytes(d.uvarint())
	if d.err != nil || !r.windows {
		return
	}
	if r.aheadUnit(index, unit) {
		d.fail()
		return
	}
	if !readRegisters(list, s.slotLocked(index, &r.t.spans[index], unit).registers) {
		d.fail()
	}
}
