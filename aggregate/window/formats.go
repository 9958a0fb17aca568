package window

import (
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"slices"
)

// Formats up to the fourth had no logs. They saved the value at the end of each unit of each
// window. This file reads them; nothing writes them.

// unitValue is the value at the end of a unit of a span.
type unitValue struct {
	span  int
	age   uint64 // in units, before the unit of the newest entry
	value uint64
}

// mostUnitValues exceeds the number of unit values that any format saved for one number.
const mostUnitValues = 4096

// BeginUnits starts with the next number.
func (r *Reader) BeginUnits() { r.unitValues = r.unitValues[:0] }

// AddUnitValue adds the value at the end of an earlier unit.
func (r *Reader) AddUnitValue(span int, age, v uint64) {
	if age > 0 && len(r.unitValues) < mostUnitValues {
		r.unitValues = append(r.unitValues, unitValue{span, age, v})
	}
}

// units reads the values at the end of each unit of a span as differences, the oldest first.
func (r *Reader) units(d *blob.Decoder, span int, rolled uint64) {
	v := rolled
	for age := d.Uvarint(); age > 0 && d.Err == nil; age-- {
		v += uint64(d.Varint())
		r.AddUnitValue(span, age-1, v)
	}
}

// agesOfUnits reads the first format, which saved only units with a change.
func (r *Reader) agesOfUnits(d *blob.Decoder, span int, rolled uint64) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		age := d.Uvarint()
		r.AddUnitValue(span, age, rolled-uint64(d.Varint()))
	}
}

// UnitEntries restores the values that were read as entries of the last ticks of their units.
func (r *Reader) UnitEntries(d *blob.Decoder, c Coding, p *History, stamp uint32, rolled uint64) {
	if stamp == 0 || d.Err != nil {
		return
	}
	var all []Entry
	for _, one := range r.unitValues {
		stride := uint64(r.Strides[one.span])
		if newest := uint64(stamp) / stride; one.age <= newest && newest-one.age > 0 {
			all = append(all, Entry{uint32((newest-one.age+1)*stride - 1), one.value})
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return int(a.Tick) - int(b.Tick) })
	r.steps, r.settled = r.steps[:0], 0
	at := Entry{stamp, rolled}
	for i, one := range slices.Backward(all) {
		if one.Tick < at.Tick && (one.Value != at.Value || i == 0) {
			r.steps = append(r.steps, Entry{at.Tick - one.Tick, at.Value - one.Value})
			at = one
		}
	}
	r.RestoreEntries(d, c, p, stamp, rolled, 0)
}
