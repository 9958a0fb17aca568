package window

import "github.com/sluice-metrics/sluice/aggregate/blob"

// Reader reads saved histories of any format.
type Reader struct {
	Logs    *Logs
	Clock   *Clock
	Today   uint32 // the tick in progress
	steps   []Entry
	settled uint32 // ticks between a number's last change and its stamp
	// For formats up to the fourth: the values at the end of units, and the ticks per unit of each
	// saved span.
	unitValues []unitValue
	Strides    []uint32
}

// ClockSlack is the number of ticks by which a saved stamp may be ahead of the saved clock, because
// the two are not saved at one instant.
const ClockSlack = 20

// Earlier reads the output of AppendEarlier: n steps back from an entry that the caller has.
func (r *Reader) Earlier(d *blob.Decoder, c Coding, n uint64) {
	r.steps, r.settled = r.steps[:0], 0
	if c != WholeCoding {
		r.settled = d.Uint32()
	}
	for ; n > 0 && d.Err == nil; n-- {
		r.steps = append(r.steps, Entry{d.Uint32(), c.Unpack(d.Uvarint())})
	}
}

// RestoreEntries restores the newest entry and the steps back from it. It keeps newer entries that
// the history has already.
func (r *Reader) RestoreEntries(d *blob.Decoder, c Coding, p *History, stamp uint32, newest uint64, habit uint8) {
	if stamp == 0 || d.Err != nil {
		return
	}
	if habit&habitShifted != 0 {
		p.FreeLog(r.Logs)
		*p = History{}
	}
	if r.settled >= stamp {
		d.Fail()
		return
	}
	at, single := Entry{stamp - r.settled, newest}, r.singleAfter(p, habit, stamp-r.settled)
	for i, step := range r.steps {
		if step.Tick == 0 || step.Tick >= at.Tick {
			d.Fail()
			return
		}
		at.Tick -= step.Tick
		at.Value -= step.Value
		r.steps[i] = at
	}
	for i := len(r.steps) - 1; i >= 0; i-- {
		if entry := r.steps[i]; r.CurrentTick(entry.Tick) >= p.Stamp {
			p.Record(r.Logs, c, r.CurrentTick(entry.Tick), entry.Value)
		}
	}
	p.Record(r.Logs, c, r.CurrentTick(stamp-r.settled), newest)
	p.Stamp = max(p.Stamp, r.CurrentTick(stamp))
	if p.log != 0 {
		r.Logs.head(p.log).single = single
	}
}

// singleAfter returns how many of the newest entries in a row changed only once in their tick, once the
// entries up to tick are restored. A delta has that number rounded down to a power of two, so continuing
// the row of the history is more exact.
func (r *Reader) singleAfter(p *History, habit uint8, tick uint32) uint8 {
	habit &^= habitShifted
	if p.Stamp == 0 {
		return min(habit, mostSingle)
	}
	before := p.Stamp
	if p.log != 0 {
		before = r.Logs.head(p.log).stamp
	}
	row := int(p.Singles(r.Logs))
	for _, back := range r.steps {
		if r.CurrentTick(tick) > before {
			row++
		}
		tick -= back.Tick
	}
	if r.CurrentTick(tick) > before {
		row++
	}
	return uint8(min(max(int(habit), min(row, 2*int(habit)-1)), mostSingle))
}

// CurrentTick converts a saved tick. Ticks change with the shortest window.
func (r *Reader) CurrentTick(then uint32) uint32 { return r.Clock.currentTick(then) }

// History reads the output of History.Append.
func (r *Reader) History(d *blob.Decoder, c Coding, p *History, stamp uint32) {
	rolled, form := d.Uvarint(), d.Byte()
	if r.Ahead(stamp) {
		d.Fail()
	}
	r.unitValues, r.steps, r.settled = r.unitValues[:0], r.steps[:0], 0
	habit := byte(0)
	switch form {
	case historyAlone:
	case historySteps:
		habit = d.Byte()
		r.Earlier(d, c, d.Uvarint())
	case historyUnits:
		for i := range r.Strides {
			r.units(d, i, rolled)
		}
	case historyAges:
		for i := range r.Strides {
			r.agesOfUnits(d, i, rolled)
		}
	default:
		d.Fail()
	}
	if form == historyAlone || form == historySteps {
		r.RestoreEntries(d, c, p, stamp, rolled, habit)
		return
	}
	r.UnitEntries(d, c, p, stamp, rolled)
}

// Ahead reports whether a saved tick is in the future, beyond ClockSlack.
func (r *Reader) Ahead(tick uint32) bool { return r.CurrentTick(tick) > r.Today+ClockSlack }
