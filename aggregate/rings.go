package aggregate

import (
	"encoding/binary"
	"math"
	"sync"
	"unsafe"
)

// rings holds all rings. A ring has, per span, how the value stood at the end of each of the latest units, the newest
// included: unit u is in slot u modulo the number of slots. Units in which nothing was noted are filled when the next note comes, so
// no slot needs a stamp. Taking and giving lock; the notes belong to whoever holds the history lock of the ring's owner.
//
// There are two kinds. A narrow ring has the low 32 bits of its values: as long as a value only grows, and by less than 2^31
// in all that is kept, the difference to the newest says the rest. What does otherwise (large counters, gauges, which
// are the bits of a float) is moved to a wide one.
type rings struct {
	spans        []span
	narrow, wide ringPool
}

// ringHead stands before the values of a ring.
type ringHead struct {
	counts [maxWindows]uint8 // per span, how many units are known
	gap    uint16            // ticks between the latest notes
	alike  uint8             // how many gaps in a row were like that
	_      uint8
}

const (
	wideRing   = 1 << 31 // in a ring's number
	headBytes  = int(unsafe.Sizeof(ringHead{}))
	narrowMost = math.MaxInt32
	// mostRings is far beyond what series there may be: each has one, or two with a fraction.
	mostRings = 2 * maxBlocks * blockSeries
)

func newRings(spans []span, slots int) *rings {
	r := &rings{spans: spans}
	r.narrow.open(headBytes + 4*slots)
	r.wide.open(headBytes + 8*slots)
	return r
}

func (r *rings) give(ring uint32) {
	pool, i := r.pool(ring)
	pool.give(i)
}

func (r *rings) pool(ring uint32) (*ringPool, uint32) {
	if ring&wideRing != 0 {
		return &r.wide, ring &^ wideRing
	}
	return &r.narrow, ring
}

// used is how many rings are in use, and the bytes of all.
func (r *rings) used() (n int, bytes int64) {
	for _, pool := range []*ringPool{&r.narrow, &r.wide} {
		in, size := pool.used()
		n, bytes = n+in, bytes+size
	}
	return n, bytes
}

// note enters a value that stood at the end of a tick into the ring of a past, whose newest note is still the one before. It
// returns the ring, which may be another one then.
func (r *rings) note(p *past, tick uint32, v uint64) uint32 {
	ring := p.ring
	if ring&wideRing == 0 && !r.fits(p, v) {
		if ring = r.widen(p); ring == 0 {
			return 0
		}
	}
	head, values := r.open(ring)
	head.pace(p.stamp, tick)
	for i := range r.spans {
		sp := &r.spans[i]
		values.fill(sp, &head.counts[i], p, sp.unit(tick))
		values.set(sp, sp.unit(tick), v)
	}
	return ring
}

// fits reports whether a narrow ring can go on to v.
func (r *rings) fits(p *past, v uint64) bool {
	kept := uint64(0) // what came in all that is kept
	for i := range r.spans {
		if was, ok := r.at(p, i, r.known(p.ring, i)-1); ok {
			kept = max(kept, p.rolled-was)
		}
	}
	return v-p.rolled <= narrowMost-kept
}

// widen moves a ring's notes to a wide one, and gives the narrow one back.
func (r *rings) widen(p *past) uint32 {
	ring := r.wide.take()
	if ring != 0 {
		ring |= wideRing
		from, _ := r.open(p.ring)
		head, values := r.open(ring)
		*head = *from
		for i := range r.spans {
			sp := &r.spans[i]
			for age := range uint32(head.counts[i]) {
				v, _ := r.at(p, i, age)
				values.set(sp, sp.unit(p.stamp)-age, v)
			}
		}
	}
	r.narrow.give(p.ring)
	return ring
}

// at is the value of a past as it stood so many units of a span before its newest note's. False: there was none yet, or it is
// not kept.
func (r *rings) at(p *past, span int, age uint32) (uint64, bool) {
	head, values := r.open(p.ring)
	if age >= uint32(head.counts[span]) {
		return 0, false
	}
	sp := &r.spans[span]
	return values.get(sp, sp.unit(p.stamp)-age, p.rolled), true
}

// appendUnits appends, for each span, how many units there are from the one of the tick since on, how much lower than now the value was
// at the end of the oldest, and what came in each of the others: small numbers for counters.
func (r *rings) appendUnits(dst []byte, p *past, since uint32) []byte {
	_, values := r.open(p.ring)
	units := r.unitsSince(p, since)
	for i := range r.spans {
		sp := &r.spans[i]
		dst = binary.AppendUvarint(dst, uint64(units[i]))
		newest, before := sp.unit(p.stamp), p.rolled
		for u := newest - uint32(units[i]) + 1; u <= newest; u++ {
			v := values.get(sp, u, p.rolled)
			dst = binary.AppendVarint(dst, int64(v-before))
			before = v
		}
	}
	return dst
}

// known is how many units of a span a ring has.
func (r *rings) known(ring uint32, span int) uint32 {
	head, _ := r.open(ring)
	return uint32(head.counts[span])
}

// start makes the ring of a past that has its newest note alone. 0: there is no memory, and nothing older will be known.
func (r *rings) start(p *past) uint32 {
	ring := r.narrow.take()
	if ring == 0 {
		return 0
	}
	head, values := r.open(ring)
	for i := range r.spans {
		sp := &r.spans[i]
		head.counts[i] = 1
		values.set(sp, sp.unit(p.stamp), p.rolled)
	}
	return ring
}

// restore enters a value that stood so many units of a span before the newest note's, and returns the ring.
func (r *rings) restore(p *past, span int, age uint32, v uint64) uint32 {
	ring := p.ring
	if ring&wideRing == 0 && p.rolled-v > narrowMost {
		if ring = r.widen(p); ring == 0 {
			return 0
		}
	}
	head, values := r.open(ring)
	sp := &r.spans[span]
	head.counts[span] = max(head.counts[span], uint8(age+1))
	values.set(sp, sp.unit(p.stamp)-age, v)
	return ring
}

// interval is at how many ticks a number was noted, the last few times; 0: at none.
func (r *rings) interval(ring uint32, times uint8) uint32 {
	if head, _ := r.open(ring); head.alike >= times {
		return uint32(head.gap)
	}
	return 0
}

// pace notes how many ticks went by since the note before. A tenth more or less is how an interval falls onto ticks.
func (h *ringHead) pace(before, tick uint32) {
	if before == 0 || tick == before {
		return
	}
	gap := uint16(min(tick-before, math.MaxUint16))
	if off := max(h.gap, gap) - min(h.gap, gap); h.alike > 0 && off <= max(1, h.gap/10) {
		h.alike = min(h.alike, math.MaxUint8-1) + 1
		return
	}
	h.gap, h.alike = gap, 1
}

func (r *rings) open(ring uint32) (*ringHead, ringValues) {
	pool, i := r.pool(ring)
	head := (*ringHead)(pool.at(i))
	return head, ringValues{unsafe.Add(unsafe.Pointer(head), headBytes), ring&wideRing != 0}
}

// ringValues are the values of one ring.
type ringValues struct {
	first unsafe.Pointer
	wide  bool
}

// fill has the units that went by since the newest note stand where that did, up to another.
func (v ringValues) fill(sp *span, count *uint8, newest *past, to uint32) {
	from, slots := sp.unit(newest.stamp), uint32(sp.slots)
	passed := min(to-from, slots)
	for u := to - passed + 1; u < to; u++ {
		v.set(sp, u, newest.rolled)
	}
	*count = uint8(min(uint32(*count)+passed, slots))
}

func (v ringValues) set(sp *span, unit uint32, value uint64) {
	at := sp.first + int(unit%uint32(sp.slots))
	if v.wide {
		*(*uint64)(unsafe.Add(v.first, at*8)) = value
		return
	}
	*(*uint32)(unsafe.Add(v.first, at*4)) = uint32(value)
}

// get is a value that is not above the newest, or, where the ring is wide, any.
func (v ringValues) get(sp *span, unit uint32, newest uint64) uint64 {
	at := sp.first + int(unit%uint32(sp.slots))
	if v.wide {
		return *(*uint64)(unsafe.Add(v.first, at*8))
	}
	return newest - uint64(uint32(newest)-*(*uint32)(unsafe.Add(v.first, at*4)))
}

// ringPool is the memory of the rings of one size, numbered from 1.
type ringPool struct {
	memory *arena
	size   int

	mu   sync.Mutex
	next uint32
	free []uint32
}

func (p *ringPool) open(size int) {
	p.size, p.next = (size+7)/8*8, 1
	p.memory = newArena(mostRings * p.size)
}

func (p *ringPool) at(i uint32) unsafe.Pointer {
	return unsafe.Add(p.memory.base, uintptr(i)*uintptr(p.size))
}

func (p *ringPool) take() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	i := p.next
	if i == mostRings || !p.memory.reach((int(i)+1)*p.size) {
		return 0
	}
	p.next++
	return i
}

func (p *ringPool) give(i uint32) {
	*(*ringHead)(p.at(i)) = ringHead{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, i)
}

func (p *ringPool) used() (n int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.next) - 1 - len(p.free), int64(p.next) * int64(p.size)
}
