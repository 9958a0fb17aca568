package aggregate

// pastReader reads what was saved of histories, of any format.
type pastReader struct {
	notes   *notes
	clock   *clock
	today   uint32 // the tick in progress
	steps   []note
	settled uint32 // how many ticks before its stamp a number last changed
	// Of the formats up to the fourth: how a number stood, and how many ticks a unit of each span had.
	stood   []unitAge
	strides []uint32
}

// clockSlack is how many ticks a stamp may be ahead of the clock: the two are not saved at one instant.
const clockSlack = 20

// earlier reads what appendEarlier appended, as it stands: the way back from a note that the caller knows.
func (r *pastReader) earlier(d *decoder, c coding, n uint64) {
	r.steps, r.settled = r.steps[:0], 0
	if c != wholeCoding {
		r.settled = d.uint32()
	}
	for ; n > 0 && d.err == nil; n-- {
		r.steps = append(r.steps, note{d.uint32(), c.unpack(d.uvarint())})
	}
}

// restoreNotes enters the notes of a past whose newest is known, and the steps back from there. What the past has
// already, from a record that is newer, it keeps.
func (r *pastReader) restoreNotes(d *decoder, c coding, p *past, stamp uint32, newest uint64, habit uint8) {
	if stamp == 0 || d.err != nil {
		return
	}
	if habit&habitShifted != 0 {
		p.forget(r.notes)
		*p = past{}
	}
	if r.settled >= stamp {
		d.fail()
		return
	}
	at := note{stamp - r.settled, newest}
	for i, step := range r.steps {
		if step.tick == 0 || step.tick >= at.tick {
			d.fail()
			return
		}
		at.tick -= step.tick
		at.value -= step.value
		r.steps[i] = at
	}
	for i := len(r.steps) - 1; i >= 0; i-- {
		if one := r.steps[i]; r.tick(one.tick) >= p.stamp {
			p.note(r.notes, c, r.tick(one.tick), one.value)
		}
	}
	p.note(r.notes, c, r.tick(stamp-r.settled), newest)
	p.stamp = max(p.stamp, r.tick(stamp))
	if p.log != 0 {
		r.notes.head(p.log).single = min(habit&^habitShifted, mostSingle)
	}
}

// tick is the tick of this process for one of the process that wrote: another shortest window has other ticks.
func (r *pastReader) tick(then uint32) uint32 { return r.clock.restored(then) }

// past reads what appendTo appended.
func (r *pastReader) past(d *decoder, c coding, p *past, stamp uint32) {
	rolled, form := d.uvarint(), d.byte()
	if r.ahead(stamp) {
		d.fail()
	}
	r.stood, r.steps, r.settled = r.stood[:0], r.steps[:0], 0
	habit := byte(0)
	switch form {
	case pastAlone:
	case pastSteps:
		habit = d.byte()
		r.earlier(d, c, d.uvarint())
	case pastUnits:
		for i := range r.strides {
			r.units(d, i, rolled)
		}
	case pastNotes:
		for i := range r.strides {
			r.notesOfUnits(d, i, rolled)
		}
	default:
		d.fail()
	}
	if form == pastAlone || form == pastSteps {
		r.restoreNotes(d, c, p, stamp, rolled, habit)
		return
	}
	r.unitNotes(d, c, p, stamp, rolled)
}

// ahead reports whether a tick has not come yet: nobody noted anything under it.
func (r *pastReader) ahead(tick uint32) bool { return r.tick(tick) > r.today+clockSlack }
