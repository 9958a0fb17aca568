package limit

import "slices"

// maxScannedSlots is the most slots that are searched one by one. A quota with more has a
// nameIndex.
const maxScannedSlots = 16

// exactGrowth is up to how many slots the slice grows by one: doubling it for each of 150,000 pods
// would waste memory.
const exactGrowth = 8

// nameIndex finds the slots of a quota that has many.
type nameIndex struct {
	positions map[string]int // in the quota's slots, by name
	// empty slots stay until they are half of all, so removing n slots takes O(n).
	empty int
}

func (s *quota) nameIndex() *nameIndex {
	if s.extras == nil {
		return nil
	}
	return s.extras.index
}

// slot returns a metric's slot; nil: it has none. Slots stay in place as taken says.
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

// addSlot appends a slot. The caller enters a series into it at once.
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

// reindex makes the name index if there are many slots, and drops it otherwise.
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

// removeSlot removes a slot that has no series left.
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
