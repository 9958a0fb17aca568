package aggregate

import (
	"maps"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// What the formats up to the fourth had in place of logs: how a number stood at the end of each unit of each window.
// They are read, and never written.

// unitRun reads a run of numbers with the units of each span that they have in common.
func (r *restorer) unitRun(d *decoder, alike bool) {
	if !alike {
		r.mark = readMark(d)
	}
	state := d.uint32()
	units := d.bytes(uint64(len(r.strides)))
	if len(units) < len(r.strides) {
		return // the list ended early
	}
	readPlaces(d, func(place uint32) { r.unitNumber(d, place, state, units) })
}

func (r *restorer) unitNumber(d *decoder, place, state uint32, units []byte) {
	rolled := d.uvarint()
	r.beginUnits()
	for i := range r.strides {
		v := rolled
		for age := uint64(units[i]); age > 1 && d.err == nil; age-- {
			v += uint64(d.varint())
			r.stoodAt(i, age-1, v)
		}
	}
	if r.takes(d, place, state); !r.took || d.err != nil {
		return
	}
	kind, c := r.b.page.kinds[place], &r.b.page.cells[place]
	r.unitNotes(d, codingOf(kind), &c.past, r.mark.stamp, rolled)
	switch kind {
	case metric.Counter:
		c.value.Store(c.past.rolled)
	case metric.Gauge:
		r.gauge(d, place, 0)
	default:
		d.fail()
	}
}

// weightsOfUnits makes the notes of a timer's weight from its records, which is all that there was.
func (r *restorer) weightsOfUnits(t *timer, p *past) {
	p.forget(r.t.notes)
	*p = past{}
	weights := map[uint32]float64{}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	size := func(rec timerRecord) float64 {
		d.reset()
		d.merge(rec)
		return d.size()
	}
	fine, long := &r.t.spans[0], &r.t.spans[len(r.t.spans)-1]
	if t.past != nil && fine != long {
		t.past[len(t.past)-1].each(0, func(rec timerRecord) { weights[long.tick(rec.unit)] += size(rec) })
	}
	if t.past != nil {
		t.past[0].each(0, func(rec timerRecord) {
			tick := fine.tick(rec.unit)
			if weights[tick] += size(rec); fine != long && rec.unit <= t.folded {
				weights[long.tick(long.unit(tick))] -= size(rec) // the longest window has it, too
			}
		})
	}
	if t.pushed != nil {
		for _, slot := range t.pushed.past[len(r.t.spans)-1] {
			weights[long.tick(slot.unit)] += slot.count
		}
	}
	for _, tick := range slices.Sorted(maps.Keys(weights)) {
		p.addWeight(r.t.notes, tick, weights[tick])
	}
}
