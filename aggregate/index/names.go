package index

import (
	"iter"
	"unsafe"
)

// nameTable finds a family's entries by object name. It is an open hash table like lookup.Slots,
// but guarded by the lock of the family's shard.
//
// A Go map reads its control bytes, the key, the name and the entry in turn; for a new series each
// of them misses the cache. Here a slot holds the entry and 32 bits of the name's hash, so a lookup
// rarely reads another entry. A family of one name takes 32 bytes instead of 200.
type nameTable struct {
	slots  []nameSlot
	live   int // slots with an entry
	filled int // slots that are not empty
}

// nameSlot is a slot of a nameTable. It is empty if the entry is nil. The low bits of the tag are
// the index at which the probe begins.
type nameSlot struct {
	entry *Entry
	tag   uint32
}

// removedName marks a slot whose entry was removed. A probe continues past it.
var removedName = new(Entry)

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// slot finds the slot of a name, or returns nil.
func (n *nameTable) slot(tag uint32, name string) *nameSlot {
	if len(n.slots) == 0 {
		return nil
	}
	mask := uint32(len(n.slots) - 1)
	for i := tag; ; i++ {
		switch s := &n.slots[i&mask]; {
		case s.entry == nil:
			return nil
		case s.tag == tag && s.entry != removedName && s.entry.Name == name:
			return s
		}
	}
}

// find returns the entry of a name, or nil.
func (n *nameTable) find(hash uint64, name string) *Entry {
	if s := n.slot(tagOf(hash), name); s != nil {
		return s.entry
	}
	return nil
}

// First returns the address of the first slot that find reads, for prefetching; 0 if the table is
// empty.
func (n *nameTable) First(hash uint64) uintptr {
	if len(n.slots) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&n.slots[tagOf(hash)&uint32(len(n.slots)-1)]))
}

// Likely returns the first entry with the name's tag, without reading any entry. It returns nil if
// there is none.
func (n *nameTable) Likely(hash uint64) *Entry {
	if len(n.slots) == 0 {
		return nil
	}
	tag, mask := tagOf(hash), uint32(len(n.slots)-1)
	for i := tag; ; i++ {
		if s := &n.slots[i&mask]; s.entry == nil || s.tag == tag {
			return s.entry
		}
	}
}

// put adds an entry, and replaces an entry of the same name.
func (n *nameTable) put(hash uint64, e *Entry) {
	tag := tagOf(hash)
	if s := n.slot(tag, e.Name); s != nil {
		s.entry = e
		return
	}
	if (n.filled+1)*4 > len(n.slots)*3 {
		n.grow()
	}
	n.add(nameSlot{e, tag})
	n.live++
}

func (n *nameTable) add(one nameSlot) {
	mask := uint32(len(n.slots) - 1)
	i := one.tag
	for n.slots[i&mask].entry != nil {
		i++
	}
	n.slots[i&mask] = one
	n.filled++
}

func (n *nameTable) grow() {
	old, size := n.slots, 2 // the table shrinks if most of its slots are removed names
	for (n.live+1)*2 > size {
		size *= 2
	}
	n.slots, n.filled = make([]nameSlot, size), 0
	for _, s := range old {
		if s.entry != nil && s.entry != removedName {
			n.add(s)
		}
	}
}

// remove removes the entry of a name.
func (n *nameTable) remove(hash uint64, name string) {
	if s := n.slot(tagOf(hash), name); s != nil {
		s.entry = removedName
		n.live--
	}
}

// All yields the entries. The loop's body may release the shard's lock, so entries may change
// meanwhile: those that stay are yielded, and new ones may be.
func (n *nameTable) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		slots := n.slots
		for i := range slots {
			e := slots[i].entry
			if e == nil || e == removedName {
				continue
			}
			if &slots[0] != &n.slots[0] { // the table was replaced: look the entry up again
				s := n.slot(slots[i].tag, e.Name)
				if s == nil {
					continue
				}
				e = s.entry
			}
			if !yield(e) {
				return
			}
		}
	}
}
