package aggregate

import (
	"sync"
	"sync/atomic"
)

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
		p.ring = rings.take()
		rings.note(p.ring, p.stamp, p.rolled)
	}
	p.rolled, p.stamp = v, tick
	if p.ring != 0 {
		rings.note(p.ring, tick, v)
	}
}

// before is the value as it stood when the view's window began. False: there was none yet.
func (p *past) before(rings *rings, v view) (uint64, bool) { return p.at(rings, v, v.first-1) }

// at is the value as it stood at the end of a unit of the view's span.
func (p *past) at(rings *rings, v view, unit uint32) (uint64, bool) {
	if p.stamp == 0 {
		return 0, false
	}
	if v.span.unit(p.stamp) <= unit {
		return p.rolled, true
	}
	if p.ring == 0 {
		return 0, false
	}
	return rings.at(p.ring, v.span, unit)
}

// forget gives the ring back once all its notes are older than every window: the newest note then says it all.
func (p *past) forget(rings *rings) {
	if p.ring != 0 {
		rings.give(p.ring)
		p.ring = 0
	}
}

// rings holds all rings, without pointers, in pages. A ring is, per span, its notes in no particular order:
// there are a dozen, so a scan is as quick as an index and needs no head. Taking and giving lock; the notes
// themselves belong to whoever holds the history lock of the ring's owner.
type rings struct {
	spans []span
	slots int

	pages atomic.Pointer[[]*ringPage] // copied when it grows; ring i is in page i/ringsPerPage

	mu   sync.Mutex
	next uint32
	free []uint32
}

const ringsPerPage = 512

type ringPage struct {
	stamps []uint32
	values []uint64
}

func newRings(spans []span, slots int) *rings {
	r := &rings{spans: spans, slots: slots, next: 1}
	r.pages.Store(&[]*ringPage{})
	return r
}

func (r *rings) take() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		i := r.free[n-1]
		r.free = r.free[:n-1]
		return i
	}
	i := r.next
	r.next++
	if pages := *r.pages.Load(); int(i/ringsPerPage) == len(pages) {
		page := &ringPage{
			stamps: make([]uint32, ringsPerPage*r.slots),
			values: make([]uint64, ringsPerPage*r.slots),
		}
		pages = append(pages[:len(pages):len(pages)], page)
		r.pages.Store(&pages)
	}
	return i
}

func (r *rings) give(i uint32) {
	stamps, _ := r.notes(i)
	clear(stamps)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, i)
}

// used is how many rings are in use, and the bytes of all pages.
func (r *rings) used() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.next) - 1 - len(r.free), int64(len(*r.pages.Load())) * int64(ringsPerPage*r.slots*12)
}

func (r *rings) notes(i uint32) (stamps []uint32, values []uint64) {
	page := (*r.pages.Load())[i/ringsPerPage]
	from := int(i%ringsPerPage) * r.slots
	return page.stamps[from : from+r.slots], page.values[from : from+r.slots]
}

func (r *rings) note(i, tick uint32, v uint64) {
	stamps, values := r.notes(i)
	for s := range r.spans {
		sp := &r.spans[s]
		noteSpan(stamps[sp.first:sp.first+sp.slots], values[sp.first:sp.first+sp.slots], sp.unit(tick), v)
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

// noteSpan overwrites the note of the same unit, or the oldest.
func noteSpan(stamps []uint32, values []uint64, unit uint32, v uint64) {
	at, _ := slotFor(stamps, unit, func(stamp *uint32) uint32 { return *stamp })
	stamps[at], values[at] = unit, v
}

func (r *rings) at(i uint32, sp *span, unit uint32) (uint64, bool) {
	stamps, values := r.notes(i)
	best, found := uint32(0), 0
	for k := sp.first; k < sp.first+sp.slots; k++ {
		if stamp := stamps[k]; stamp != 0 && stamp <= unit && stamp > best {
			best, found = stamp, k
		}
	}
	return values[found], best != 0
}
