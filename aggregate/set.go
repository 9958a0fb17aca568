package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"math"
	"sync/atomic"
)

// set is the body of a series of kind set: exact while it has up to some 1,200 members, then estimated.
//
// Writers add to the newest table. When it is full a writer makes one of twice the size; when the largest is full,
// it makes the live registers, and from then on new samples go there. What the tables hold stays readable until
// it is older than every window, so nothing has to be converted and no sample can fall between the two forms.
type set struct {
	exact atomic.Pointer[members]
	many  atomic.Pointer[liveRegisters] // nil while exact

	// past holds, per span, the registers of each unit; guarded by the history lock, empty while exact.
	past [][]setSlot
	// Of the newest table when older ones were found behind it: the epoch after which no writer can be adding to those.
	merging *members
	dropAt  uint64
}

type setSlot struct {
	unit      uint32 // 0: never used
	registers *registers
}

func newSet(spans []span) *set {
	s := &set{past: make([][]setSlot, len(spans))}
	s.exact.Store(newMembers(membersFirst, nil))
	return s
}

// insert notes a member's hash as seen in a tick. False: it would have to grow, and may not.
func (s *set) insert(hash uint64, tick uint32, room budget) bool {
	hash = max(hash, 1)
	for {
		if many := s.many.Load(); many != nil {
			many.insert(hash)
			return true
		}
		table := s.exact.Load()
		if table.see(hash, tick) {
			return true
		}
		larger := len(table.hashes) < membersMost
		if grow := int64(24 * len(table.hashes)); larger && !room.take(grow) || !larger && !room.take(manyBytes) {
			return false
		}
		if larger {
			s.exact.CompareAndSwap(table, newMembers(2*len(table.hashes), table))
		} else {
			s.many.CompareAndSwap(nil, new(liveRegisters))
		}
	}
}

// manyBytes is what a set takes once it is estimated: the live registers, and those of all slots of both windows.
const manyBytes = hllRegisters * (1 + 2*(ticksPerWindow+1))

// rollLocked notes what the live registers got under the tick.
func (s *set) rollLocked(spans []span, tick uint32) {
	many := s.many.Load()
	if many == nil {
		return
	}
	var fresh registers
	many.into(&fresh, true)
	for i := range spans {
		s.slotLocked(i, &spans[i], spans[i].unit(tick)).registers.merge(&fresh)
	}
}

func (s *set) slotLocked(index int, sp *span, unit uint32) *setSlot {
	slots := s.past[index]
	at, has := slotFor(slots, unit, func(s *setSlot) uint32 { return s.unit })
	switch {
	case has:
	case len(slots) == sp.slots-1:
		slots[at].unit = unit
		clear(slots[at].registers[:])
	default:
		s.past[index] = append(slots, setSlot{unit: unit, registers: new(registers)})
		return &s.past[index][len(slots)]
	}
	return &slots[at]
}

// mergeLocked moves what older tables hold into the newest, once no writer can be adding to them any more.
// Members that were last seen before the oldest tick are left behind.
func (s *set) mergeLocked(e *memory.Epochs, oldest uint32) {
	newest := s.exact.Load()
	older := newest.older.Load()
	switch {
	case older == nil:
	case s.merging != newest:
		s.merging, s.dropAt = newest, e.Advance()
	case e.Quiesced() >= s.dropAt:
		s.merging = nil
		older.each(func(hash uint64, tick uint32) {
			if tick >= oldest {
				s.insertOld(newest, hash, tick)
			}
		})
		newest.older.Store(nil)
	}
}

// insertOld moves a member to a newer table, or to one newer still where writers made that in the meantime.
func (s *set) insertOld(to *members, hash uint64, tick uint32) {
	for !to.see(hash, tick) {
		if newest := s.exact.Load(); newest != to {
			to = newest
			continue
		}
		s.exact.CompareAndSwap(to, newMembers(2*len(to.hashes), to))
		to = s.exact.Load()
	}
}

// renewLocked starts a new table where much of what the newest holds is too old to be asked for: so members that come and
// go do not fill it. The old one stays behind it until it is merged. An idle set gives back what it can.
func (s *set) renewLocked(oldest uint32) {
	table := s.exact.Load()
	if table.older.Load() != nil {
		return
	}
	kept := int32(0)
	table.each(func(_ uint64, tick uint32) {
		if tick >= oldest {
			kept++
		}
	})
	slots := membersFirst
	for slots < membersMost && int32(slots)*4/5 < 2*kept {
		slots *= 2
	}
	used := table.used.Load()
	if crowded := used >= table.room()*3/4 && (used-kept)*4 >= used; crowded || slots < len(table.hashes) {
		s.exact.CompareAndSwap(table, newMembers(slots, table))
	}
}

// forgetLocked drops registers of an idle set that are older than every window.
func (s *set) forgetLocked() {
	for i := range s.past {
		s.past[i] = nil
	}
}

// readLocked adds the members of the view to u.
func (s *set) readLocked(u *union, v view) {
	first := v.tick
	s.exact.Load().each(func(hash uint64, tick uint32) {
		if tick >= first {
			u.insert(hash)
		}
	})
	many := s.many.Load()
	if many == nil {
		return
	}
	for i := range s.past[v.index] {
		if slot := &s.past[v.index][i]; slot.unit >= v.first {
			u.merge(slot.registers)
		}
	}
	u.merge(nil)
	many.into(u.many, false)
}

func (s *set) bytesLocked() int64 {
	n := int64(s.exact.Load().slots())*12 + 128
	if s.many.Load() != nil {
		n += hllRegisters
	}
	for _, slots := range s.past {
		n += int64(cap(slots))*16 + int64(len(slots))*hllRegisters
	}
	return n
}

// union counts the members of many sets: exactly while all of them are exact.
type union struct {
	exact map[uint64]struct{}
	many  *registers // nil while exact
}

func newUnion() *union { return &union{exact: map[uint64]struct{}{}} }

func (u *union) insert(hash uint64) {
	if u.many != nil {
		u.many.insert(hash)
		return
	}
	u.exact[hash] = struct{}{}
}

// merge turns to estimating, and adds registers where there are any.
func (u *union) merge(r *registers) {
	if u.many == nil {
		u.many = new(registers)
		for hash := range u.exact {
			u.many.insert(hash)
		}
		u.exact = nil
	}
	if r != nil {
		u.many.merge(r)
	}
}

func (u *union) count() float64 {
	if u.many != nil {
		return math.Round(u.many.estimate())
	}
	return float64(len(u.exact))
}
