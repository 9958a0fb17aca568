package aggregate

// past is what is remembered of one number's earlier values: the newest note, and from the second tick on a
// ring with the notes of all spans. It belongs to the holder of the block's history lock.
type past struct {
	rolled uint64 // the value as last noted
	stamp  uint32 // the tick of that note; 0: never
	ring   uint32 // 0: none
}

// note remembers that the value stood at v at the end of the tick. Ticks never go back.
func (p *past) note(rings *rings, tick uint32, v uint64) {
	if p.ring == 0 && p.stamp != 0 && p.stamp != tick {
		p.ring = rings.start(p)
	}
	if p.ring != 0 {
		p.ring = rings.note(p, tick, v)
	}
	p.rolled, p.stamp = v, tick
}

// before is the value as it stood when the view's window began. False: there was none yet.
func (p *past) before(rings *rings, v view) (uint64, bool) { return p.at(rings, v, v.first-1) }

// at is the value as it stood at the end of a unit of the view's span.
func (p *past) at(rings *rings, v view, unit uint32) (uint64, bool) {
	if p.stamp == 0 {
		return 0, false
	}
	newest := v.span.unit(p.stamp)
	if newest <= unit {
		return p.rolled, true
	}
	if p.ring == 0 {
		return 0, false
	}
	return rings.at(p, v.index, newest-unit)
}

// forget gives the ring back once all its notes are older than every window: the newest note then says it all.
func (p *past) forget(rings *rings) {
	if p.ring != 0 {
		rings.give(p.ring)
		p.ring = 0
	}
}

// slotFor is where the slot of a unit is; has: it is there, else it is the oldest's place.
func slotFor[S any](slots []S, unit uint32, unitOf func(*S) uint32) (at int, has bool) {
	for i := range slots {
		switch u := unitOf(&slots[i]); {
		case u == unit:
			return i, true
		case u < unitOf(&slots[at]):
			at = i
		}
	}
	return at, false
}
