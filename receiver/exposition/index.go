package exposition

import "hash/maphash"

// linearLimit is the number of entries up to which a linear search is cheaper than a hash.
const linearLimit = 8

// index finds entries by hash, with open addressing, at most half full. The caller compares the
// entries themselves, so equal hashes are harmless; the seed is secret, so no client can produce
// many.
type index struct {
	slots []slot // a power of two
	used  int
}

type slot struct {
	hash  uint32
	entry uint32 // 1 + the entry; 0: empty
}

var seed = maphash.MakeSeed()

func hashString(s string) uint64 { return maphash.String(seed, s) }

// reset empties the index, and shrinks it if the last body used little of it.
func (x *index) reset() {
	if x.used == 0 {
		return
	}
	if len(x.slots) > 64 && x.used < len(x.slots)/16 {
		x.slots = make([]slot, len(x.slots)/2)
	} else {
		clear(x.slots)
	}
	x.used = 0
}

// next returns an entry of the hash, and the position to continue from; ok is false if there are no
// more. A search starts at position hash.
func (x *index) next(hash, at uint32) (entry int, next uint32, ok bool) {
	if x.used == 0 {
		return 0, 0, false
	}
	mask := uint32(len(x.slots) - 1)
	for ; ; at++ {
		switch s := x.slots[at&mask]; {
		case s.entry == 0:
			return 0, 0, false
		case s.hash == hash:
			return int(s.entry - 1), at + 1, true
		}
	}
}

func (x *index) add(hash uint32, entry int) {
	if 2*(x.used+1) > len(x.slots) {
		before := x.slots
		x.slots = make([]slot, max(64, 2*len(before)))
		for _, s := range before {
			if s.entry != 0 {
				x.put(s)
			}
		}
	}
	x.put(slot{hash: hash, entry: uint32(entry + 1)})
	x.used++
}

func (x *index) put(s slot) {
	mask := uint32(len(x.slots) - 1)
	at := s.hash
	for x.slots[at&mask].entry != 0 {
		at++
	}
	x.slots[at&mask] = s
}
