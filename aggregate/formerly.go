package aggregate

import (
	"maps"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// What the formats up to the fourth had in place of logs: how a number stood at the end of each unit of each window.
// They are read, and never written.

// unitRun reads a run of numbers with the units of each span that they have in common.
func (r *restorer) unitRun(d *blob.Decoder, alike bool) {
	if !alike {
		r.mark = readMark(d)
	}
	state := d.Uint32()
	units := d.Bytes(uint64(len(r.Strides)))
	if len(units) < len(r.Strides) {
		return // the list ended early
	}
	readPlaces(d, func(place uint32) { r.unitNumber(d, place, state, units) })
}

func (r *restorer) unitNumber(d *blob.Decoder, place, state uint32, units []byte) {
	rolled := d.Uvarint()
	r.BeginUnits()
	for i := range r.Strides {
		v := rolled
		for age := uint64(units[i]); age > 1 && d.Err == nil; age-- {
			v += uint64(d.Varint())
			r.StoodAt(i, age-1, v)
		}
	}
	if r.takes(d, place, state); !r.took || d.Err != nil {
		return
	}
	kind, c := r.b.page.kinds[place], &r.b.page.cells[place]
	r.UnitEntries(d, codingOf(kind), &c.history, r.mark.stamp, rolled)
	switch kind {
	case metric.Counter:
		c.value.Store(c.history.Newest)
	case metric.Gauge:
		r.gauge(d, place, 0)
	default:
		d.Fail()
	}
}

// weightsOfUnits makes the notes of a timer's weight from its records, which is all that there was.
func (r *restorer) weightsOfUnits(t *timer, p *window.History) {
	p.FreeLog(r.t.logs)
	*p = window.History{}
	weights := map[uint32]float64{}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	size := func(rec timerRecord) float64 {
		d.reset()
		d.merge(rec)
		return d.size()
	}
	fine, long := &r.t.spans[0], &r.t.spans[len(r.t.spans)-1]
	if t.units != nil && fine != long {
		t.units[len(t.units)-1].each(0, func(rec timerRecord) { weights[long.FirstTick(rec.unit)] += size(rec) })
	}
	if t.units != nil {
		t.units[0].each(0, func(rec timerRecord) {
			tick := fine.FirstTick(rec.unit)
			if weights[tick] += size(rec); fine != long && rec.unit <= t.folded {
				weights[long.FirstTick(long.Unit(tick))] -= size(rec) // the longest window has it, too
			}
		})
	}
	if t.pushed != nil {
		for _, slot := range t.pushed.units[len(r.t.spans)-1] {
			weights[long.FirstTick(slot.unit)] += slot.count
		}
	}
	for _, tick := range slices.Sorted(maps.Keys(weights)) {
		p.AddWeight(r.t.logs, tick, weights[tick])
	}
}
