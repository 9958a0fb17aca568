package aggregate

import (
	"math"
	"unsafe"
)

// timerSlot is what came in one unit of a span.
type timerSlot struct {
	unit          uint32 // 0: never used
	sum, min, max float64
	bins          string // appendBin's form, immutable
}

// rollLocked notes what came since the last roll under the tick.
func (t *timer) rollLocked(live *timerLive, spans []span, tick uint32) {
	fresh := distributions.Get().(*distribution)
	defer distributions.Put(fresh)
	fresh.reset()
	if t.takeLocked(live, fresh); fresh.total == 0 {
		return
	}
	both := distributions.Get().(*distribution)
	defer distributions.Put(both)
	for i := range spans {
		slot := t.slotLocked(i, &spans[i], spans[i].unit(tick))
		both.reset()
		both.merge(slot)
		fresh.addTo(both)
		slot.sum, slot.min, slot.max = both.sum, both.min, both.max
		slot.bins = string(both.appendBins(nil))
	}
}

func (d *distribution) addTo(to *distribution) {
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			to.add(bin, w)
		}
	}
	to.extend(d.sum, d.min, d.max)
}

// slotLocked is the slot of a unit: the one it has, a new one, or the oldest made empty.
func (t *timer) slotLocked(index int, sp *span, unit uint32) *timerSlot {
	slots := t.past[index]
	at, has := slotFor(slots, unit, func(s *timerSlot) uint32 { return s.unit })
	if has {
		return &slots[at]
	}
	empty := timerSlot{unit: unit, min: math.Inf(1), max: math.Inf(-1)}
	if len(slots) == sp.slots-1 { // a window needs its units and the one in progress
		slots[at] = empty
		return &slots[at]
	}
	if slots == nil {
		slots = make([]timerSlot, 0, sp.slots-1)
	}
	t.past[index] = append(slots, empty)
	return &t.past[index][len(slots)]
}

// readLocked adds all that is in the view to d. What came since the last roll has to be rolled before.
func (t *timer) readLocked(d *distribution, v view) {
	slots := t.past[v.index]
	for i := range slots {
		if slots[i].unit >= v.first {
			d.merge(&slots[i])
		}
	}
	if t.pushed != nil {
		t.pushed.readLocked(d, v)
	}
}

// weight is what the timer is accounted for: what it takes once all slots of both windows hold all bins of its tree, and as many
// of its table as they hold now, or a quarter of it.
func (t *timer) weight(live *timerLive) int64 {
	const slots = 2 * (ticksPerWindow + 1)
	n := int64(unsafe.Sizeof(timer{})) + slots*int64(unsafe.Sizeof(timerSlot{})) + max(t.binBytes(), timerBins/4*2*slots)
	return n + t.liveBytes(live, leafBytes) + t.pushed.weight()
}

// liveBytes is what the live part and the tree take, by what a leaf is counted for.
func (t *timer) liveBytes(live *timerLive, leaf int64) (n int64) {
	if live != nil {
		n += liveBytes
	}
	if tree := t.tree.Load(); tree != nil {
		nodes, leaves := tree.count()
		n += treeBytes + nodes*nodeBytes + leaves*leaf
	}
	return n
}

// binBytes is what the slots' bins take.
func (t *timer) binBytes() (n int64) {
	for _, slots := range t.past {
		for i := range slots {
			n += int64(len(slots[i].bins))
		}
	}
	return n
}

// forgetLocked drops the slots of an idle timer.
func (t *timer) forgetLocked() {
	for i := range t.past {
		t.past[i] = nil
	}
	if t.pushed != nil {
		clear(t.pushed.past)
	}
}

// bytesLocked is the memory that the timer takes now.
func (t *timer) bytesLocked(live *timerLive) int64 {
	n := int64(unsafe.Sizeof(timer{})) + int64(len(t.past))*24
	n += t.liveBytes(live, 2*leafBins*8)
	for _, slots := range t.past {
		n += int64(cap(slots)) * 48
	}
	n += t.binBytes()
	if t.pushed != nil {
		n += t.pushed.bytes()
	}
	return n
}
