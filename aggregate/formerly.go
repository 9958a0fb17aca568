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
		r.mark = d.mark()
	}
	state := d.uint32()
	units := d.bytes(uint64(r.spans))
	if len(units) < r.spans {
		return // the list ended early
	}
	d.places(func(place uint32) { r.unitNumber(d, place, state, units) })
}

func (r *restorer) unitNumber(d *decoder, place, state uint32, units []byte) {
	rolled := d.uvarint()
	r.stood = r.stood[:0]
	for i := range r.spans {
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

// unitAge is how a number stood so many units of a span before the newest note's.
type unitAge struct {
	span  int
	age   uint64
	value uint64
}

func (r *restorer) stoodAt(span int, age, v uint64) {
	if age > 0 && len(r.stood) < 4*blockSeries {
		r.stood = append(r.stood, unitAge{span, age, v})
	}
}

// units reads how a number stood at the end of each unit of a span, the oldest first.
func (r *restorer) units(d *decoder, span int, rolled uint64) {
	v := rolled
	for age := d.uvarint(); age > 0 && d.err == nil; age-- {
		v += uint64(d.varint())
		r.stoodAt(span, age-1, v)
	}
}

// notesOfUnits reads what the first format had: the units in which something came.
func (r *restorer) notesOfUnits(d *decoder, span int, rolled uint64) {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		age := d.uvarint()
		r.stoodAt(span, age, rolled-uint64(d.varint()))
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

// unitNotes enters the units that were read as notes of their last ticks.
func (r *restorer) unitNotes(d *decoder, c coding, p *past, stamp uint32, rolled uint64) {
	if stamp == 0 || d.err != nil {
		return
	}
	var all []note
	for _, one := range r.stood {
		stride := uint64(r.strides[one.span])
		if newest := uint64(stamp) / stride; one.age <= newest && newest-one.age > 0 {
			all = append(all, note{uint32((newest-one.age+1)*stride - 1), one.value})
		}
	}
	slices.SortStableFunc(all, func(a, b note) int { return int(a.tick) - int(b.tick) })
	r.steps, r.settled = r.steps[:0], 0
	at := note{stamp, rolled}
	for i, one := range slices.Backward(all) {
		if one.tick < at.tick && (one.value != at.value || i == 0) {
			r.steps = append(r.steps, note{at.tick - one.tick, at.value - one.value})
			at = one
		}
	}
	r.restoreNotes(d, c, p, stamp, rolled, 0)
}
