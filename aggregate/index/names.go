package index

import (
	"iter"
	"unsafe"
)

// nameTable finds a family's entries by their objects' names: an open hash table as slots.go has
// it, but under the lock of the family's shard. Go's map looked at its control bytes, the key in
// its slot, the name and the entry, one after the other: for a series that nobody has seen each was
// a miss of the cache. Here a slot has the entry and 32 bits of the name's hash, so that hardly any
// other entry is looked at; and a family of one name takes 32 bytes, not 200.
type nameTable struct {
	slots  []nameSlot
	live   int // slots with an entry
	filled int // slots that are not empty
}

// nameSlot is empty where its entry is nil. Its tag is also where the probe begins.
type nameSlot struct {
	entry *Entry
	tag   uint32
}

// removedName is what a slot has whose entry is gone.
var removedName = new(Entry)

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// slot finds the slot of a name; nil: it has none.
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

// find returns the entry of a name; nil: there is none.
func (n *nameTable) find(hash uint64, name string) *Entry {
	if s := n.slot(tagOf(hash), name); s != nil {
		return s.entry
	}
	return nil
}

// First is where the slot of a name is looked for first.
func (n *nameTable) First(hash uint64) uintptr {
	if len(n.slots) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&n.slots[tagOf(hash)&uint32(len(n.slots)-1)]))
}

// Likely is the entry that find looks at first, without a look at it; nil: there is none.
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

// put enters an entry by its name, in place of one of the same.
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
	old, size := n.slots, 2 // it may as well shrink
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

// remove takes a name out.
func (n *nameTable) remove(hash uint64, name string) {
	if s := n.slot(tagOf(hash), name); s != nil {
		s.entry = removedName
		n.live--
	}
}

// All yields the entries. Who is handed one may let others change them: what stays is yielded, what
// comes may be.
func (n *nameTable) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		slots := n.slots
		for i := range slots {
			e := slots[i].entry
			if e == nil || e == removedName {
				continue
			}
			if &slots[0] != &n.slots[0] { // it has grown: the slot may be out of date
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
