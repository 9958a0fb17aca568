package limit

import "slices"

// fewSlots is how many names are sought by looking at each. A scope with more has a crowd.
const fewSlots = 16

// exactSlots is how far room is made for one slot at a time: twice as much for each of 150,000 pods would be wasted.
const exactSlots = 8

// crowd is how many slots are sought and go.
type crowd struct {
	places map[string]int // in the scope's slots, by name
	// empty slots stay until they are half of all: so the end of a crowd costs no more than its size.
	empty int
}

func (s *scope) crowd() *crowd {
	if s.rare == nil {
		return nil
	}
	return s.rare.crowd
}

// find returns the slot of a metric; nil: it has none. It stays where it is as those of held do.
func (s *scope) find(name string) *slot {
	if c := s.crowd(); c != nil {
		if place, ok := c.places[name]; ok {
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
func (s *scope) add(one slot) *slot {
	if n := len(s.slots); n == cap(s.slots) && n < exactSlots {
		wider := make([]slot, n, n+1)
		copy(wider, s.slots)
		s.slots = wider
	}
	s.slots = append(s.slots, one)
	if c := s.crowd(); c != nil {
		c.places[one.name] = len(s.slots) - 1
	} else if len(s.slots) > fewSlots {
		s.gather()
	}
	return &s.slots[len(s.slots)-1]
}

// gather makes a crowd of the slots, if they are many.
func (s *scope) gather() {
	if len(s.slots) <= fewSlots {
		s.rare.crowd = nil
		return
	}
	c := &crowd{places: make(map[string]int, len(s.slots))}
	for i := range s.slots {
		c.places[s.slots[i].name] = i
	}
	s.more().crowd = c
}

// remove takes a slot out that has no series any more.
func (s *scope) remove(one *slot) {
	c := s.crowd()
	if c == nil {
		s.slots = slices.DeleteFunc(s.slots, func(each slot) bool { return each.series == 0 })
		return
	}
	delete(c.places, one.name)
	*one = slot{}
	if c.empty++; 2*c.empty >= len(s.slots) {
		s.slots = slices.Clone(slices.DeleteFunc(s.slots, func(each slot) bool { return each.series == 0 }))
		s.gather()
	}
}
