package kind

import (
	"math/bits"
	"sync/atomic"
)

// members is a set's exact form: the hash of each member with the tick in which it was last seen.
// An open hash table that writers fill by compare-and-swap. A hash once in stays where it is, so a
// lookup needs no lock; two tables may hold the same member, the newer tick counts.
type members struct {
	Hashes []atomic.Uint64 // 0: empty
	ticks  []atomic.Uint32 // 0: claimed, not seen yet
	used   atomic.Int32

	// Older is the table that this one grew from, until no writer can be adding to that any more.
	Older atomic.Pointer[members]
}

const (
	// membersFirst and membersMost are the slots of a table: it doubles from one to the other.
	membersFirst = 24
	membersMost  = 1536
)

func newMembers(slots int, older *members) *members {
	m := &members{Hashes: make([]atomic.Uint64, slots), ticks: make([]atomic.Uint32, slots)}
	m.Older.Store(older)
	return m
}

// room is how many members a table takes: four fifths of its slots. Writers that race may exceed it
// by one each.
func (m *members) room() int32 { return int32(len(m.Hashes)) * 4 / 5 }

// See notes that a member was seen in a tick. False: it is new and the table is full.
func (m *members) See(hash uint64, tick uint32) bool {
	at, _ := bits.Mul64(hash, uint64(len(m.Hashes)))
	for range m.Hashes {
		held := m.Hashes[at].Load()
		if held == 0 {
			if m.used.Load() >= m.room() {
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

// Each calls f for every member of this table and of those it grew from; a member may come more
// than once.
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

// slots is the size of this table and of those it grew from.
func (m *members) slots() (n int) {
	for ; m != nil; m = m.Older.Load() {
		n += len(m.Hashes)
	}
	return n
}
