package window

import (
	"math"
	"slices"
	"unsafe"
)

// History holds a number's past values: the newest entry and, from the second tick on, a log of the
// earlier entries. It belongs to the holder of the block's history lock.
type History struct {
	Newest uint64 // the value of the newest entry
	Stamp  uint32 // the tick of the newest entry; 0: never
	log    uint32 // number in Logs; 0: none
}

// Record records the value at the end of a tick. Ticks never decrease. A gauge that is set to its
// current value gets no entry.
//
// The tick in which a process resumed began before it was down. A single push after a downtime of a tick or
// more gets its entry in the next tick, so it is neither taken for a push before the downtime nor added to
// one.
func (p *History) Record(n *Logs, c Coding, tick uint32, v uint64) {
	if c != FloatCoding {
		tick = p.TickOf(n, tick)
	}
	tick = max(tick, p.Stamp)
	switch {
	case p.Stamp == 0, p.log == 0 && p.Stamp == tick, c == FloatCoding && v == p.Newest:
	case p.log == 0:
		if p.log = n.alloc(0); p.log == 0 {
			break // no memory: the earlier value is lost
		}
		n.head(p.log).stamp = p.Stamp
		fallthrough
	default:
		p.appendStep(n, c, tick, v)
	}
	p.Newest, p.Stamp = v, tick
}

// TickOf is the tick in which Record records a number.
func (p *History) TickOf(n *Logs, tick uint32) uint32 {
	if tick == n.resumed && !p.steady(n, tick) {
		return tick + 1
	}
	return tick
}

// steady reports whether a number changed in each of the newest ticks before one.
func (p *History) steady(n *Logs, tick uint32) bool {
	if p.log == 0 {
		return false
	}
	head := n.head(p.log)
	if tick > head.stamp+1 || head.before == 0 {
		return false
	}
	steps := head.steps()[:head.end]
	pause, _, _ := decodeStep(steps[head.last:])
	earlier, _, _ := decodeStep(steps[head.last-uint16(head.before):])
	return pause == 1 && earlier == 1
}

// AddWeight records further observations of a timer. A timer's history has the weight of all
// observations.
func (p *History) AddWeight(n *Logs, tick uint32, weight float64) {
	p.Record(n, WeightCoding, tick, math.Float64bits(finiteWeight(math.Float64frombits(p.Newest)+weight)))
}

// appendStep appends to the log, or changes the newest step if it has the same tick.
func (p *History) appendStep(n *Logs, c Coding, tick uint32, v uint64) {
	head := n.head(p.log)
	at, ticks, change := int(head.end), tick-head.stamp, v-p.Newest
	switch {
	case ticks != 0:
		head.single = min(head.single+1, mostSingle)
	case change != 0:
		head.single = 0
	}
	if ticks == 0 {
		if head.end == 0 {
			return // the oldest entry has no step
		}
		var before uint64
		at = int(head.last)
		ticks, before, _ = decodeStep(head.steps()[at:head.end])
		change += c.Unpack(before)
	}
	before := head.before
	if at == int(head.end) { // the newest step gets a successor
		before = uint8(head.end - head.last)
	}
	var buffer [maxStep]byte
	step := encodeStep(buffer[:0], ticks, c.pack(change))
	steps := head.steps()
	if at+len(step) > len(steps) {
		p.rewriteWith(n, c, tick, v)
		return
	}
	copy(steps[at:], step)
	head.stamp, head.last, head.end, head.before = tick, uint16(at), uint16(at+len(step)), before
}

// rewriteWith rewrites the log with one more entry and without expired ones. The log grows if
// necessary.
func (p *History) rewriteWith(n *Logs, c Coding, tick uint32, v uint64) {
	var room [128]Entry
	all := p.Read(n, c, room[:0])
	if newest := &all[len(all)-1]; newest.Tick == tick {
		newest.Value = v
	} else {
		all = append(all, Entry{tick, v})
	}
	p.writeLog(n, c, n.tidy(all, c, tick))
}

// Read appends all entries, the oldest first.
func (p *History) Read(n *Logs, c Coding, all []Entry) []Entry {
	if p.Stamp == 0 {
		return all
	}
	if p.log == 0 {
		return append(all, Entry{p.Stamp, p.Newest})
	}
	head := n.head(p.log)
	first := len(all)
	all = append(all, Entry{})
	for rest := head.steps()[:head.end]; len(rest) > 0; {
		var step Entry
		step.Tick, step.Value, rest = decodeStep(rest)
		all = append(all, step)
	}
	// Replace steps by entries, from the newest back.
	at := Entry{head.stamp, p.Newest}
	for i := len(all) - 1; i >= first; i-- {
		step := all[i]
		all[i] = at
		at.Tick -= step.Tick
		at.Value -= c.Unpack(step.Value)
	}
	return all
}

// tidy drops entries older than every window, except the newest of them, and merges old entries of
// counters.
func (n *Logs) tidy(all []Entry, c Coding, now uint32) []Entry {
	oldest := 0
	for oldest < len(all)-1 && now-all[oldest+1].Tick >= n.Horizon {
		oldest++
	}
	all = all[oldest:]
	if c == FloatCoding || len(n.coarser) == 0 {
		return all
	}
	kept := 1
	for i := 1; i < len(all); i++ {
		size := n.resolutionOf(now - all[i].Tick)
		if i < len(all)-1 && all[i].Tick/size == all[i+1].Tick/size {
			continue // the next entry covers both
		}
		all[kept] = all[i]
		kept++
	}
	return all[:kept]
}

// writeLog replaces the log by at least one entry. The last one becomes the newest entry of the
// history.
func (p *History) writeLog(n *Logs, c Coding, all []Entry) {
	var buffer [1024]byte
	steps, last, before := buffer[:0], 0, 0
	for i := 1; i < len(all); i++ {
		last, before = len(steps), len(steps)-last
		steps = encodeStep(steps, all[i].Tick-all[i-1].Tick, c.pack(all[i].Value-all[i-1].Value))
	}
	class := n.classFor(len(steps))
	if limit := logSizes[class] - logHeadBytes; len(steps) > limit { // beyond the largest log
		p.cutLog(n, c, all)
		return
	}
	if p.log == 0 || int(n.head(p.log).class) != class {
		single, shifted := p.Singles(n), p.log != 0 && n.head(p.log).shifted
		log := n.alloc(class)
		if log == 0 && p.log != 0 && len(steps) > len(n.head(p.log).steps()) {
			p.cutLog(n, c, all)
			return
		}
		if log != 0 {
			p.FreeLog(n)
			p.log = log
			n.head(log).single, n.head(log).shifted = single, shifted
		}
	}
	newest := all[len(all)-1]
	p.Newest, p.Stamp = newest.Value, max(p.Stamp, newest.Tick)
	if p.log == 0 {
		return
	}
	head := n.head(p.log)
	copy(head.steps(), steps)
	head.stamp, head.last, head.end, head.before = newest.Tick, uint16(last), uint16(len(steps)), uint8(before)
}

// cutLog drops the older half of the entries. It is called if there is no memory for all.
func (p *History) cutLog(n *Logs, c Coding, all []Entry) { p.writeLog(n, c, all[len(all)/2:]) }

// Shift counts an increase in a tick before the newest entry: all later entries rise by it. born is
// the tick of the series' birth.
func (p *History) Shift(n *Logs, c Coding, tick uint32, by uint64, born uint32, plus func(v, by uint64) uint64) {
	if p.Stamp == 0 {
		p.rewrite(n, c, []Entry{{tick, by}}, tick)
		return
	}
	all := p.Read(n, c, nil)
	newest := all[len(all)-1].Tick
	tick = max(tick, newest-min(newest, n.Horizon)) // the number includes the increase, however old
	before := n.Before(all[0], born)
	at, found := slices.BinarySearchFunc(all, tick, func(e Entry, tick uint32) int { return int(e.Tick) - int(tick) })
	for i := at; i < len(all); i++ {
		all[i].Value = plus(all[i].Value, by)
	}
	switch {
	case found:
	case at > 0:
		all = slices.Insert(all, at, Entry{tick, plus(all[at-1].Value, by)})
	default:
		all = slices.Insert(all, 0, Entry{tick, plus(before, by)})
	}
	p.rewrite(n, c, all, newest)
}

// rewrite replaces the log, and marks it so that the next delta replaces the saved log.
func (p *History) rewrite(n *Logs, c Coding, all []Entry, now uint32) {
	if p.writeLog(n, c, n.tidy(all, c, now)); p.log != 0 {
		n.head(p.log).shifted = true
	}
}

// Singles returns how many of the newest entries in a row changed only once in their tick, as for a
// client that pushes every tick.
func (p *History) Singles(n *Logs) uint8 {
	if p.log == 0 {
		return mostSingle
	}
	return n.head(p.log).single
}

// ShiftWeight is Shift for the weight of a timer.
func (p *History) ShiftWeight(n *Logs, tick uint32, weight float64, born uint32) {
	p.Shift(n, WeightCoding, tick, math.Float64bits(weight), born, func(v, by uint64) uint64 {
		return math.Float64bits(finiteWeight(math.Float64frombits(v) + math.Float64frombits(by)))
	})
}

// AddWhole is the addition of WholeCoding for Shift.
func AddWhole(v, by uint64) uint64 { return v + by }

// finiteWeight clamps the weight of a timer to finite numbers.
func finiteWeight(v float64) float64 { return max(-math.MaxFloat64, min(v, math.MaxFloat64)) }

// Shrink frees the part of a log that holds expired entries.
func (p *History) Shrink(n *Logs, c Coding, now uint32) {
	if p.log == 0 || n.head(p.log).shifted {
		return // the shifted entries must be saved first
	}
	head := n.head(p.log)
	switch used := int(head.end); {
	case now-min(head.stamp, now) > n.Horizon:
		p.FreeLog(n)
	case int(head.class) > n.classFor(used), now-min(head.stamp, now) > n.Horizon/2:
		p.writeLog(n, c, n.tidy(p.Read(n, c, nil), c, now))
	}
}

// Address is where the log is, for memory.Prefetch; 0: there is none.
func (p *History) Address(n *Logs) uintptr {
	if p.log == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(n.head(p.log)))
}

// FreeLog frees the log; the newest entry remains.
func (p *History) FreeLog(n *Logs) {
	if p.log != 0 {
		n.free(p.log)
		p.log = 0
	}
}

// SlotFor returns the index of the slot of a unit. If there is none, at is the index of the oldest
// slot.
func SlotFor[S any](slots []S, unit uint32, unitOf func(*S) uint32) (at int, has bool) {
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
