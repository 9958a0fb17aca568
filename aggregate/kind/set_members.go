package kind

import (
	"math/bits"
	"sync/atomic"
)

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
