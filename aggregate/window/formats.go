package window

import (
	"github.com/sluice-metrics/sluice/aggregate/blob"
	"slices"
)

// What the formats up to the fourth had in place of logs: how a number stood at the end of each
// unit of each window. They are read, and never written.

// unitAge is a value, so many units of a span before the newest entry's.
type unitAge struct {
	span  int
	age   uint64
	value uint64
}

// mostStood is more than any format wrote of one number.
const mostStood = 4096

// BeginUnits starts the units of a number.
func (r *Reader) BeginUnits() { r.stood = r.stood[:0] }

func (r *Reader) StoodAt(span int, age, v uint64) {
	if age > 0 && len(r.stood) < mostStood {
		r.stood = append(r.stood, unitAge{span, age, v})
	}
}

// units reads the values at the end of each unit of a span, the oldest first.
func (r *Reader) units(d *blob.Decoder, span int, rolled uint64) {
	v := rolled
	for age := d.Uvarint(); age > 0 && d.Err == nil; age-- {
		v += uint64(d.Varint())
		r.StoodAt(span, age-1, v)
	}
}

// agesOfUnits reads the first format: the units in which something came.
func (r *Reader) agesOfUnits(d *blob.Decoder, span int, rolled uint64) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		age := d.Uvarint()
		r.StoodAt(span, age, rolled-uint64(d.Varint()))
	}
}

// UnitEntries enters the units that were read as entries of their last ticks.
func (r *Reader) UnitEntries(d *blob.Decoder, c Coding, p *History, stamp uint32, rolled uint64) {
	if stamp == 0 || d.Err != nil {
		return
	}
	var all []Entry
	for _, one := range r.stood {
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
