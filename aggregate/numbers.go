package aggregate

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/sluice-metrics/sluice/metric"
)

// Nearly all that changes are plain counters and gauges, which changed in the same tick. A delta says once, for a run of
// them, what they have in common:
//
//	kind  [mark]  state  earlier notes  habit  how many  then for each:
//	  places skipped  value  [since the change]  steps of the earlier notes
//
// The mark has the tick of the newest note. Of a gauge follows how many ticks before that it changed. Earlier notes are
// those since the last delta; their steps go back from the newest: how many ticks, and by how much the number changed.

// commons is what the numbers of a run share beside their mark.
type commons struct {
	state   uint32
	earlier uint32
	habit   uint8
}

// run is the run that a delta is at.
type run struct {
	commons
	counted int // where in the delta its length stands; 0: there is none
	place   uint32
}

const longestRun = math.MaxUint8

// plainLocked reports whether a series is a number without a body.
func (b *block) plainLocked(place uint32) bool {
	switch b.page.kinds[place] {
	case metric.Counter, metric.Gauge:
		return b.body(place) == nil
	}
	return false
}

// appendNumberLocked appends a plain number to the run, or begins another one with it.
func (d *delta) appendNumberLocked(place uint32) {
	b, p, c := d.b, &d.b.page.cells[place].past, codingOf(d.b.page.kinds[place])
	own := b.markLocked(place)
	habit := p.habit(d.t.notes, true)
	d.notes = p.since(d.t.notes, c, b.saved, habit, d.notes[:0])
	common := commons{b.page.cells[place].state.Load(), uint32(len(d.notes) - 1), habit}
	if r := &d.run; r.counted == 0 || own != d.before || common != r.commons || d.dst[r.counted] == longestRun {
		d.beginRun(own, common)
	}
	d.dst[d.run.counted]++
	d.dst = binary.AppendUvarint(d.dst, uint64(place-d.run.place))
	d.run.place = place + 1
	d.dst = c.append(d.dst, p.rolled)
	d.dst = c.appendEarlier(d.dst, p.stamp, d.notes)
}

func (d *delta) beginRun(own mark, common commons) {
	if own == d.before {
		d.dst = append(d.dst, recordNumbersAlike)
	} else {
		d.dst = own.append(append(d.dst, recordNumbers))
	}
	d.dst = binary.AppendUvarint(d.dst, uint64(common.state))
	d.dst = binary.AppendUvarint(d.dst, uint64(common.earlier))
	d.dst = append(d.dst, common.habit, 0)
	d.before, d.run = own, run{commons: common, counted: len(d.dst) - 1}
}

// since is the notes from a tick on, the oldest first: at least the newest.
func (p *past) since(n *notes, c coding, tick uint32, habit uint8, all []note) []note {
	if habit&habitShifted != 0 {
		return p.read(n, c, all)
	}
	if p.log == 0 || n.head(p.log).newestAlone(tick) {
		stamp := p.stamp
		if p.log != 0 {
			stamp = n.head(p.log).stamp
		}
		return append(all, note{stamp, p.rolled})
	}
	all = p.read(n, c, all)
	for len(all) > 1 && all[0].tick < tick {
		all = all[1:]
	}
	return all
}

// A habit is what is saved of a log beside its notes: how many of the newest changed once in their tick, as a power of two,
// so that most numbers of a run have the same; and whether the notes replace what was saved before.
const habitShifted = 0x80

// habit is what to save. A delta asks once: with it, what was shifted is replaced.
func (p *past) habit(n *notes, delta bool) (habit uint8) {
	if single := p.single(n); single > 0 {
		habit = 1 << (bits.Len8(single) - 1)
	}
	if p.log == 0 || !delta || !n.head(p.log).shifted {
		return habit
	}
	n.head(p.log).shifted = false
	return habit | habitShifted
}

// newestAlone reports whether at most the newest note is of a tick or later.
func (h *noteHead) newestAlone(tick uint32) bool {
	if h.end == 0 {
		return h.stamp < tick
	}
	pause, _, _ := cutStep(h.steps()[h.last:h.end])
	return h.stamp-pause < tick
}

// appendEarlier appends the steps from the newest note back, and before them how long before the stamp that note is.
func (c coding) appendEarlier(dst []byte, stamp uint32, all []note) []byte {
	if c != wholeCoding {
		dst = binary.AppendUvarint(dst, uint64(stamp-all[len(all)-1].tick))
	}
	for i := len(all) - 1; i > 0; i-- {
		dst = binary.AppendUvarint(dst, uint64(all[i].tick-all[i-1].tick))
		dst = c.append(dst, all[i].value-all[i-1].value)
	}
	return dst
}

// numbers reads a run that appendNumberLocked appended.
func (r *restorer) numbers(d *decoder, alike bool) {
	if !alike {
		r.mark = d.mark()
	}
	common := commons{state: d.uint32(), earlier: d.uint32(), habit: d.byte()}
	d.places(func(place uint32) { r.number(d, place, common) })
}

// places calls f for each place of a run. f reads what follows the place.
func (d *decoder) places(f func(place uint32)) {
	place := uint64(0)
	for n := d.byte(); n > 0 && d.err == nil; n-- {
		place += d.uvarint() & math.MaxUint32
		if place >= blockSeries {
			d.fail()
			return
		}
		f(uint32(place))
		place++
	}
}

// number reads one number of a run.
func (r *restorer) number(d *decoder, place uint32, common commons) {
	c := codingOf(r.b.page.kinds[place])
	newest := c.unpack(d.uvarint())
	r.earlier(d, c, uint64(common.earlier))
	if r.takes(d, place, common.state); !r.took || d.err != nil {
		return
	}
	cell := &r.b.page.cells[place]
	r.restoreNotes(d, c, &cell.past, r.mark.stamp, newest, common.habit)
	switch r.b.page.kinds[place] {
	case metric.Counter:
		cell.value.Store(cell.past.rolled)
	case metric.Gauge:
		r.gauge(d, place, 0)
	default:
		d.fail()
	}
}

// earlier reads what appendEarlier appended, as it stands: the way back from a note that the caller knows.
func (r *restorer) earlier(d *decoder, c coding, n uint64) {
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
func (r *restorer) restoreNotes(d *decoder, c coding, p *past, stamp uint32, newest uint64, habit uint8) {
	if stamp == 0 || d.err != nil {
		return
	}
	if habit&habitShifted != 0 {
		p.forget(r.t.notes)
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
			p.note(r.t.notes, c, r.tick(one.tick), one.value)
		}
	}
	p.note(r.t.notes, c, r.tick(stamp-r.settled), newest)
	p.stamp = max(p.stamp, r.tick(stamp))
	if p.log != 0 {
		r.t.notes.head(p.log).single = min(habit&^habitShifted, mostSingle)
	}
}

// tick is the tick of this process for one of the process that wrote: another shortest window has other ticks.
func (r *restorer) tick(then uint32) uint32 { return r.t.clock.restored(then) }
