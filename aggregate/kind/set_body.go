package kind

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// set is the body of a set: exact up to some 1,200 members, then an estimate.
//
// Writers add to the newest table. A writer that finds it full creates a table of twice the size,
// or, after the largest, the live registers, which take all later samples. Tables stay readable
// until their members are older than every window. So no table is converted to registers, and no
// sample is lost between the two forms.
type set struct {
	seed  uint64 // of the members' hashes; immutable
	Exact atomic.Pointer[members]
	Many  atomic.Pointer[liveRegisters] // nil while exact

	// units holds, per span, the registers of each unit; guarded by the history lock, empty while
	// exact.
	units [][]setSlot
	// resting are the live registers that an idle set no longer has: until epoch restAt, writers may
	// still add to them. Both are guarded by the history lock.
	resting *liveRegisters
	restAt  uint64
	// lostTo is the newest tick of members for which a restore had no memory.
	lostTo uint32
	// merging is the newest table if MergeLocked waits to drop the tables behind it: no writer adds
	// to those after epoch dropAt. Both are guarded by the history lock.
	merging *members
	dropAt  uint64
}

type setSlot struct {
	unit      uint32 // 0: never used
	unsaved   bool   // changed by an older sample since the last delta
	registers *registers
}

// NewSet returns an empty set with the smallest table.
func NewSet(spans []window.Span) *set {
	s := &set{units: make([][]setSlot, len(spans))}
	s.Exact.Store(newMembers(membersFirst, nil))
	return s
}

// Insert adds a member's hash with a tick. It returns false if there is no memory.
func (s *set) Insert(hash uint64, tick uint32, budget Budget) bool {
	hash = max(hash, 1)
	for {
		if many := s.Many.Load(); many != nil {
			many.insert(hash)
			return true
		}
		table := s.Exact.Load()
		if table.See(hash, tick) {
			return true
		}
		larger := len(table.Hashes) < membersMost
		if grow := int64(24 * len(table.Hashes)); larger && !budget.take(grow) || !larger && !budget.take(manyBytes(budget.Env.Spans)) {
			return false
		}
		if larger {
			s.Exact.CompareAndSwap(table, newMembers(2*len(table.Hashes), table))
		} else {
			s.Many.CompareAndSwap(nil, new(liveRegisters))
		}
	}
}

// manyBytes is the memory of an estimated set: the live registers, and the registers of all slots.
// It is taken at once, because slots are added without asking.
func manyBytes(spans []window.Span) int64 {
	n := int64(hllRegisters)
	for i := range spans {
		n += int64(spans[i].Kept()) * (hllRegisters + 2*setSlotBytes) // append doubles the slots
	}
	return n
}

const setSlotBytes = int64(unsafe.Sizeof(setSlot{}))

// rollLocked moves the live registers into the slots of a tick.
func (s *set) rollLocked(spans []window.Span, e *memory.Epochs, tick uint32) {
	rested := s.resting != nil && e.Quiesced() >= s.restAt
	var fresh registers
	some := false
	for _, live := range [...]*liveRegisters{s.Many.Load(), s.resting} {
		if live != nil {
			some = live.into(&fresh, true) || some
		}
	}
	if rested {
		s.resting = nil
	}
	if !some {
		return
	}
	for i := range spans {
		s.slotLocked(i, &spans[i], spans[i].Unit(tick)).registers.merge(&fresh)
	}
}

// restLocked makes an idle set exact again: all that it has counted is older than every window.
func (s *set) restLocked(e *memory.Epochs) {
	clear(s.units)
	if many := s.Many.Load(); many != nil && s.resting == nil {
		s.Many.Store(nil)
		s.resting, s.restAt = many, e.Advance()
	}
}

// slotLocked returns the slot of a unit. If there is none, it adds one or reuses the oldest.
func (s *set) slotLocked(index int, sp *window.Span, unit uint32) *setSlot {
	slots := s.units[index]
	at, has := window.SlotFor(slots, unit, func(s *setSlot) uint32 { return s.unit })
	switch {
	case has:
	case len(slots) == sp.Kept():
		slots[at].unit = unit
		clear(slots[at].registers[:])
	default:
		s.units[index] = append(slots, setSlot{unit: unit, registers: new(registers)})
		return &s.units[index][len(slots)]
	}
	return &slots[at]
}

// MergeLocked moves members of older tables into the newest once no writer adds to the older ones.
// It drops members older than the oldest tick.
func (s *set) MergeLocked(e *memory.Epochs, oldest uint32) {
	newest := s.Exact.Load()
	older := newest.Older.Load()
	switch {
	case older == nil:
	case s.merging != newest:
		s.merging, s.dropAt = newest, e.Advance()
	case e.Quiesced() >= s.dropAt:
		s.merging = nil
		older.Each(func(hash uint64, tick uint32) {
			if tick >= oldest {
				s.insertOld(newest, hash, tick)
			}
		})
		newest.Older.Store(nil)
	}
}

// insertOld adds a member to a table, or to the newest one if the table is full.
func (s *set) insertOld(to *members, hash uint64, tick uint32) {
	for !to.See(hash, tick) {
		if newest := s.Exact.Load(); newest != to {
			to = newest
			continue
		}
		s.Exact.CompareAndSwap(to, newMembers(2*len(to.Hashes), to))
		to = s.Exact.Load()
	}
}

// renewLocked starts a new table if many members of the newest are older than every window, so that
// old members do not fill the table. The old table stays until MergeLocked drops it.
func (s *set) renewLocked(oldest uint32) {
	table := s.Exact.Load()
	if table.Older.Load() != nil {
		return
	}
	kept := int32(0)
	table.Each(func(_ uint64, tick uint32) {
		if tick >= oldest {
			kept++
		}
	})
	slots := membersFirst
	for slots < membersMost && int32(slots)*4/5 < 2*kept {
		slots *= 2
	}
	used := table.used.Load()
	if crowded := used >= table.capacity()*3/4 && (used-kept)*4 >= used; crowded || slots < len(table.Hashes) {
		s.Exact.CompareAndSwap(table, newMembers(slots, table))
	}
}

// readLocked adds the members of the view to u.
func (s *set) readLocked(u *union, v window.View) {
	first := v.FirstTick
	s.Exact.Load().Each(func(hash uint64, tick uint32) {
		if tick >= first {
			u.insert(hash)
		}
	})
	for i := range s.units[v.Index] {
		if slot := &s.units[v.Index][i]; slot.unit >= v.FirstUnit {
			u.merge(slot.registers)
		}
	}
	for _, live := range [...]*liveRegisters{s.Many.Load(), s.resting} {
		var fresh registers
		if live != nil && live.into(&fresh, false) {
			u.merge(&fresh)
		}
	}
}

// BytesLocked returns the memory of the set.
func (s *set) BytesLocked() int64 { return s.exactBytes() + s.manyBytesLocked() }

// weightLocked returns the accounted memory of the set: of an estimated one, all that it may grow to.
func (s *set) weightLocked(spans []window.Span) int64 {
	n := s.manyBytesLocked()
	if n > 0 {
		n = max(n, manyBytes(spans))
	}
	return s.exactBytes() + n
}

func (s *set) exactBytes() int64 { return int64(s.Exact.Load().slots())*12 + 128 }

// manyBytesLocked returns the memory of the registers; 0: there are none.
func (s *set) manyBytesLocked() (n int64) {
	for _, live := range [...]*liveRegisters{s.Many.Load(), s.resting} {
		if live != nil {
			n += hllRegisters
		}
	}
	for _, slots := range s.units {
		n += int64(cap(slots))*setSlotBytes + int64(len(slots))*hllRegisters
	}
	return n
}

// union counts the distinct members of many sets: exactly if all of them are exact.
type union struct {
	seed  uint64
	exact map[uint64]struct{}
	many  *registers // nil while exact
}

// unions has a union for each seed of the sets that were read. Hashes of different seeds cannot be
// compared.
type unions []*union

// of returns the union of a seed.
func (all *unions) of(seed uint64) *union {
	for _, u := range *all {
		if u.seed == seed {
			return u
		}
	}
	*all = append(*all, &union{seed: seed, exact: map[uint64]struct{}{}})
	return (*all)[len(*all)-1]
}

// count returns the largest of the unions: members under different seeds are mostly the same ones.
func (all unions) count() (most float64) {
	for _, u := range all {
		most = max(most, u.count())
	}
	return most
}

func (u *union) insert(hash uint64) {
	if u.many != nil {
		u.many.insert(hash)
		return
	}
	u.exact[hash] = struct{}{}
}

// merge makes the union an estimate, and adds registers unless r is nil.
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

// members is the exact form of a set: each member's hash and the tick in which it was last seen. It
// is an open-addressing hash table that writers fill by compare-and-swap. Hashes are never moved or
// removed, so a lookup needs no lock. If two tables hold a member, the newer tick counts.
type members struct {
	Hashes []atomic.Uint64 // 0: empty
	ticks  []atomic.Uint32 // 0: claimed, not seen yet
	used   atomic.Int32

	// Older is the table that this one replaced, until MergeLocked drops it.
	Older atomic.Pointer[members]
}

const (
	// membersFirst and membersMost are the smallest and largest number of slots. Tables double in
	// between.
	membersFirst = 24
	membersMost  = 1536
)

func newMembers(slots int, older *members) *members {
	m := &members{Hashes: make([]atomic.Uint64, slots), ticks: make([]atomic.Uint32, slots)}
	m.Older.Store(older)
	return m
}

// capacity is the number of members that a table takes: four fifths of its slots. Each concurrent
// writer may exceed it by one.
func (m *members) capacity() int32 { return int32(len(m.Hashes)) * 4 / 5 }

// See records that a member was seen in a tick. It returns false if the member is new and the table
// is full.
func (m *members) See(hash uint64, tick uint32) bool {
	at, _ := bits.Mul64(hash, uint64(len(m.Hashes)))
	for range m.Hashes {
		held := m.Hashes[at].Load()
		if held == 0 {
			if m.used.Load() >= m.capacity() {
				return false
			}
			if m.Hashes[at].CompareAndSwap(0, hash) {
				m.used.Add(1)
				held = hash
			} else {
				held = m.Hashes[at].Load()
			}
		}
		if held == hash {
			raiseTick(&m.ticks[at], tick)
			return true
		}
		if at++; at == uint64(len(m.Hashes)) {
			at = 0
		}
	}
	return false
}

func raiseTick(at *atomic.Uint32, tick uint32) {
	for old := at.Load(); old < tick; old = at.Load() {
		if at.CompareAndSwap(old, tick) {
			return
		}
	}
}

// Each calls f for every member of this table and of the older ones. It may call f for a member
// more than once.
func (m *members) Each(f func(hash uint64, tick uint32)) {
	for ; m != nil; m = m.Older.Load() {
		for i := range m.Hashes {
			if hash := m.Hashes[i].Load(); hash != 0 {
				if tick := m.ticks[i].Load(); tick != 0 {
					f(hash, tick)
				}
			}
		}
	}
}

// slots returns the total number of slots of this table and the older ones.
func (m *members) slots() (n int) {
	for ; m != nil; m = m.Older.Load() {
		n += len(m.Hashes)
	}
	return n
}
