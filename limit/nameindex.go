package limit

import "slices"

// fewSlots is how many names are sought by looking at each. A scope with more has a crowd.
const maxScannedSlots = 16

// exactSlots is how far room is made for one slot at a time: twice as much for each of 150,000 pods would be wasted.
const exactGrowth = 8

// crowd is how many slots are sought and go.
type nameIndex struct {
	positions map[string]int // in the scope's slots, by name
	// empty slots stay until they are half of all: so the end of a crowd costs no more than its size.
	empty int
}

func (s *quota) nameIndex() *nameIndex {
	if s.extras == nil {
		return nil
	}
	return s.extras.index
}

// find returns the slot of a metric; nil: it has none. It stays where it is as those of held do.
func (s *quota) slot(name string) *slot {
	if c := s.nameIndex(); c != nil {
		if place, ok := c.positions[name]; ok {
			return &s.slots[place]
		}
		return nil
	}
	for i := range s.slots {
		if s.slots[i].name == name {
			return &s.slots[i]
		}
	}
	return nil
}

// add appends a slot, into which a series is entered at once.
func (s *quota) addSlot(one slot) *slot {
	if n := len(s.slots); n == cap(s.slots) && n < exactGrowth {
		wider := make([]slot, n, n+1)
		copy(wider, s.slots)
		s.slots = wider
	}
	s.slots = append(s.slots, one)
	if c := s.nameIndex(); c != nil {
		c.positions[one.name] = len(s.slots) - 1
	} else if len(s.slots) > maxScannedSlots {
		s.reindex()
	}
	return &s.slots[len(s.slots)-1]
}

// gather makes a crowd of the slots, if they are many.
func (s *quota) reindex() {
	if len(s.slots) <= maxScannedSlots {
		s.extras.index = nil
		return
	}
	c := &nameIndex{positions: make(map[string]int, len(s.slots))}
	for i := range s.slots {
		c.positions[s.slots[i].name] = i
	}
	s.ensureExtras().index = c
}

// remove takes a slot out that has no series any more.
func (s *quota) removeSlot(one *slot) {
	c := s.nameIndex()
	if c == nil {
		s.slots = slices.DeleteFunc(s.slots, func(each slot) bool { return each.series == 0 })
		return
	}
	delete(c.positions, one.name)
	*one = slot{}
	if c.empty++; 2*c.empty >= len(s.slots) {
		s.slots = slices.Clone(slices.DeleteFunc(s.slots, func(each slot) bool { return each.series == 0 }))
		s.reindex()
	}
}
