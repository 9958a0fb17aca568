package aggregate

import (
	"encoding/binary"
	"math/bits"
)

// What follows the newest note.
const (
	pastAlone = iota
	pastNotes // as the first format has it: notes with their ages, in no order
	pastUnits // as the formats up to the fourth have it
	pastSteps // how many notes there are before it, and the steps back to them
)

// appendTo appends the newest note and, where there is a log, the notes before it from a tick on.
func (p *past) appendTo(dst []byte, n *notes, c coding, since uint32) []byte {
	dst = binary.AppendUvarint(dst, p.rolled)
	if p.log == 0 {
		return append(dst, pastAlone)
	}
	habit := p.habit(n, since > 0)
	all := p.since(n, c, since, habit, nil)
	dst = binary.AppendUvarint(append(dst, pastSteps, habit), uint64(len(all)-1))
	return c.appendEarlier(dst, p.stamp, all)
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
