package aggregate

import "slices"

// What the formats up to the fourth had in place of logs: how a number stood at the end of each unit of each window.
// They are read, and never written.

// unitAge is how a number stood so many units of a span before the newest note's.
type unitAge struct {
	span  int
	age   uint64
	value uint64
}

// mostStood is more than any format wrote of one number.
const mostStood = 4096

// beginUnits starts the units of a number.
func (r *pastReader) beginUnits() { r.stood = r.stood[:0] }

func (r *pastReader) stoodAt(span int, age, v uint64) {
	if age > 0 && len(r.stood) < mostStood {
		r.stood = append(r.stood, unitAge{span, age, v})
	}
}

// units reads how a number stood at the end of each unit of a span, the oldest first.
func (r *pastReader) units(d *decoder, span int, rolled uint64) {
	v := rolled
	for age := d.uvarint(); age > 0 && d.err == nil; age-- {
		v += uint64(d.varint())
		r.stoodAt(span, age-1, v)
	}
}

// notesOfUnits reads what the first format had: the units in which something came.
func (r *pastReader) notesOfUnits(d *decoder, span int, rolled uint64) {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		age := d.uvarint()
		r.stoodAt(span, age, rolled-uint64(d.varint()))
	}
}

// unitNotes enters the units that were read as notes of their last ticks.
func (r *pastReader) unitNotes(d *decoder, c coding, p *past, stamp uint32, rolled uint64) {
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
