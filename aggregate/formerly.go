package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/blob"
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
	kind := behaviours[r.b.page.kinds[place]]
	r.UnitEntries(d, kind.coding(), &r.b.page.cells[place].history, r.mark.stamp, rolled)
	kind.restoreNumber(d, r.b.handle(place))
}
