package lookup

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// Slots is an open hash table from hashes to numbers, in shards. Lookups take no lock. A slot holds
// 32 bits of the hash, the tag, so callers compare the number's object. The low bits of the tag are
// also the start of the probe, so a table can grow without reading the objects. The bits above, and
// the shard, distinguish hashes.
//
//   - T1 The object of a number is complete before its slot names it.
//   - T2 A removed number is reused only after every writer was quiescent (memory.Epochs).
//   - T3 Adding, removing and growing happen under the shard's lock; a concurrent lookup finds the
//     old state or the new one.
type Slots struct {
	heads  [SlotShards]slotHead // close together, so that they stay in a cache
	Shards [SlotShards]slotShard
}

const SlotShards = 256

// slotHead is the address and size of a shard's table, for lookups. A table is replaced only by one
// of at least its size.
//
//   - T4 Growing stores first, then mask; a lookup loads mask, then first. So it never reads beyond
//     a table. With a new table and an old mask it may miss a number; callers look again under the
//     lock before they create one.
type slotHead struct {
	first atomic.Pointer[atomic.Uint64]
	mask  atomic.Uint64
}

type slotShard struct {
	head *slotHead

	Mu     sync.Mutex
	table  []atomic.Uint64
	live   int // slots with a number
	filled int // slots that are not empty
}

// Numbers in slots: 0 ends a probe; removed marks a slot whose number was removed.
const (
	removed     = 1
	FirstNumber = 2
)

func NewSlots() *Slots {
	s := new(Slots)
	for i := range s.Shards {
		s.Shards[i].head = &s.heads[i]
		s.Shards[i].setLocked(make([]atomic.Uint64, 16))
	}
	return s
}

func (s *slotShard) setLocked(table []atomic.Uint64) {
	s.table = table
	s.head.first.Store(&table[0])
	s.head.mask.Store(uint64(len(table) - 1))
}

func (s *Slots) Shard(hash uint64) *slotShard { return &s.Shards[hash%SlotShards] }

// probe walks the slots that a hash may be in.
type probe struct {
	first *atomic.Uint64
	mask  uint64
	at    uint64
	tag   uint64
}

func (s *Slots) Probe(hash uint64) probe {
	head := &s.heads[hash%SlotShards]
	mask := head.mask.Load()
	return probe{first: head.first.Load(), mask: mask, at: hash >> 32, tag: hash >> 32}
}

// Slot is the next slot to look at.
func (p *probe) Slot() *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(p.first), p.at&p.mask*8))
}

// Next returns the number in the next slot with the hash's tag, or 0 at the end of the probe.
func (p *probe) Next() uint32 {
	for {
		slot := p.Slot().Load()
		p.at++
		if slot == 0 {
			return 0
		}
		if slot>>32 == p.tag && uint32(slot) != removed {
			return uint32(slot)
		}
	}
}

// AddLocked adds a number.
func (s *slotShard) AddLocked(hash uint64, number uint32) {
	if table := s.table; (s.filled+1)*4 > len(table)*3 {
		s.growLocked()
	}
	s.putLocked(s.table, hash>>32<<32|uint64(number))
	s.live++
}

func (s *slotShard) putLocked(table []atomic.Uint64, held uint64) {
	mask := uint64(len(table) - 1)
	for i := held >> 32; ; i++ {
		if slot := &table[i&mask]; slot.Load() == 0 {
			slot.Store(held)
			s.filled++
			return
		}
	}
}

func (s *slotShard) growLocked() {
	old := s.table
	size := len(old)
	for (s.live+1)*2 > size {
		size *= 2
	}
	table := make([]atomic.Uint64, size)
	s.filled = 0
	for i := range old {
		if held := old[i].Load(); uint32(held) >= FirstNumber {
			s.putLocked(table, held)
		}
	}
	s.setLocked(table)
}

// RemoveLocked removes a number.
func (s *slotShard) RemoveLocked(hash uint64, number uint32) {
	table := s.table
	mask := uint64(len(table) - 1)
	for i := hash >> 32; ; i++ {
		slot := &table[i&mask]
		switch held := slot.Load(); {
		case held == 0:
			return
		case uint32(held) == number:
			slot.Store(held>>32<<32 | removed)
			s.live--
			return
		}
	}
}

// sweepLocked removes the numbers that gone selects, and returns them.
func (s *slotShard) sweepLocked(gone func(number uint32) bool) (out []uint32) {
	table := s.table
	for i := range table {
		if held := table[i].Load(); uint32(held) >= FirstNumber && gone(uint32(held)) {
			table[i].Store(held>>32<<32 | removed)
			s.live--
			out = append(out, uint32(held))
		}
	}
	return out
}

// bytesLocked is the memory of the shard's table.
func (s *slotShard) bytesLocked() int64 { return int64(len(s.table)) * 8 }

// Hash hashes two pieces of a line with the mixing step of wyhash (github.com/wangyi-fudan/wyhash):
// a 128-bit product folded onto 64 bits, which is also the fallback of Go's maps. For two short
// pieces it costs a third of hash/maphash. The seed is secret, so no sender can choose lines that
// collide.
type Hash struct{ a, b, C uint64 }

func NewHash() Hash { return Hash{rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1} }

func (h *Hash) Of(head, rest []byte) uint64 {
	return h.piece(h.piece(h.C, head), rest)
}

// String hashes a string into a state. The length is mixed in, so "ab" then "c" hashes unlike "a"
// then "bc".
func (h *Hash) String(state uint64, s string) uint64 {
	return h.piece(state, unsafe.Slice(unsafe.StringData(s), len(s)))
}

func (h *Hash) piece(state uint64, p []byte) uint64 {
	n := uint64(len(p))
	for len(p) > 16 {
		state = fold(binary.LittleEndian.Uint64(p)^h.a, binary.LittleEndian.Uint64(p[8:])^state)
		p = p[16:]
	}
	var low, high uint64
	switch {
	case len(p) >= 8:
		low, high = binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[len(p)-8:])
	case len(p) >= 4:
		low, high = uint64(binary.LittleEndian.Uint32(p)), uint64(binary.LittleEndian.Uint32(p[len(p)-4:]))
	case len(p) > 0:
		low = uint64(p[0])<<16 | uint64(p[len(p)/2])<<8 | uint64(p[len(p)-1])
	}
	return fold(h.b^n, fold(low^h.a, high^state))
}

func fold(x, y uint64) uint64 {
	high, low := bits.Mul64(x, y)
	return high ^ low
}

// Ref identifies a series by number and generation. If the place was reused, the cell's state
// differs from State.
type Ref struct {
	Number uint32
	State  uint32
}

// The target of an alias is one word, so that it changes atomically. It is either a series' number
// and state, or a rejection and the table's retry epoch at that time. A state that differs from the
// cell's means that the place was reused. An epoch that differs from the table's means that the
// sample may be accepted now.

// RejectionBit is set in the targets that are rejections.
const RejectionBit = 1 << 63

func (r Ref) Target() uint64 { return uint64(r.State)<<32 | uint64(r.Number) }

func TargetRef(target uint64) Ref { return Ref{Number: uint32(target), State: uint32(target >> 32)} }

func RejectionTarget(r metric.Reason, epoch uint32) uint64 {
	return RejectionBit | uint64(epoch)<<8 | uint64(r)
}

func TargetRejection(target uint64) (r metric.Reason, epoch uint32) {
	return metric.Reason(target), uint32(target >> 8)
}
