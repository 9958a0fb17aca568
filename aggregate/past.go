package aggregate

import (
	"math"
	"slices"
)

// past is what is remembered of one number's earlier values: the newest note, and from the second tick on a log with
// those before it. It belongs to the holder of the block's history lock.
type past struct {
	rolled uint64 // the value as last noted
	stamp  uint32 // the tick of that note; 0: never
	log    uint32 // 0: none
}

// note remembers that the value stood at v at the end of the tick. Ticks never go back. What a gauge is set to again
// is no change.
func (p *past) note(n *notes, c coding, tick uint32, v uint64) {
	tick = max(tick, p.stamp)
	switch {
	case p.stamp == 0, p.log == 0 && p.stamp == tick, c == floatCoding && v == p.rolled:
	case p.log == 0:
		if p.log = n.take(0); p.log == 0 {
			break // no memory: nothing older will be known
		}
		n.head(p.log).stamp = p.stamp
		fallthrough
	default:
		p.step(n, c, tick, v)
	}
	p.rolled, p.stamp = v, tick
}

// addWeight notes that a timer observed some more: its number is the weight of all that it ever observed.
func (p *past) addWeight(n *notes, tick uint32, weight float64) {
	p.note(n, weightCoding, tick, math.Float64bits(finite(math.Float64frombits(p.rolled)+weight)))
}

// step appends to the log, or changes its newest step where that is of the same tick.
func (p *past) step(n *notes, c coding, tick uint32, v uint64) {
	head := n.head(p.log)
	at, ticks, change := int(head.end), tick-head.stamp, v-p.rolled
	switch {
	case ticks != 0:
		head.single = min(head.single+1, mostSingle)
	case change != 0:
		head.single = 0
	}
	if ticks == 0 {
		if head.end == 0 {
			return // the oldest note has no step
		}
		var before uint64
		at = int(head.last)
		ticks, before, _ = cutStep(head.steps()[at:head.end])
		change += c.unpack(before)
	}
	var buffer [maxStep]byte
	step := appendStep(buffer[:0], ticks, c.pack(change))
	steps := head.steps()
	if at+len(step) > len(steps) {
		p.makeRoom(n, c, tick, v)
		return
	}
	copy(steps[at:], step)
	head.stamp, head.last, head.end = tick, uint16(at), uint16(at+len(step))
}

// makeRoom writes the log anew, with another note, without what is too old, and larger if need be.
func (p *past) makeRoom(n *notes, c coding, tick uint32, v uint64) {
	var room [128]note
	all := p.read(n, c, room[:0])
	if newest := &all[len(all)-1]; newest.tick == tick {
		newest.value = v
	} else {
		all = append(all, note{tick, v})
	}
	p.write(n, c, n.tidy(all, c, tick))
}

// read appends the notes that there are, the oldest first.
func (p *past) read(n *notes, c coding, all []note) []note {
	if p.stamp == 0 {
		return all
	}
	if p.log == 0 {
		return append(all, note{p.stamp, p.rolled})
	}
	head := n.head(p.log)
	first := len(all)
	all = append(all, note{})
	for rest := head.steps()[:head.end]; len(rest) > 0; {
		var step note
		step.tick, step.value, rest = cutStep(rest)
		all = append(all, step)
	}
	// Of each note there is the step to it: from the newest back they become what they stand for.
	at := note{head.stamp, p.rolled}
	for i := len(all) - 1; i >= first; i-- {
		step := all[i]
		all[i] = at
		at.tick -= step.tick
		at.value -= c.unpack(step.value)
	}
	return all
}

// tidy drops notes that are too old to be asked for, but for the newest of them, and merges old notes of counters.
func (n *notes) tidy(all []note, c coding, now uint32) []note {
	oldest := 0
	for oldest < len(all)-1 && now-all[oldest+1].tick >= n.horizon {
		oldest++
	}
	all = all[oldest:]
	if c == floatCoding || len(n.steps) == 0 {
		return all
	}
	kept := 1
	for i := 1; i < len(all); i++ {
		size := n.resolutionOf(now - all[i].tick)
		if i < len(all)-1 && all[i].tick/size == all[i+1].tick/size {
			continue // the next one stands for both
		}
		all[kept] = all[i]
		kept++
	}
	return all[:kept]
}

// write makes the log hold these notes: at least one, the newest of which becomes the past's own.
func (p *past) write(n *notes, c coding, all []note) {
	var buffer [1024]byte
	steps, last := buffer[:0], 0
	for i := 1; i < len(all); i++ {
		last = len(steps)
		steps = appendStep(steps, all[i].tick-all[i-1].tick, c.pack(all[i].value-all[i-1].value))
	}
	class := n.classFor(len(steps))
	if most := logSizes[class] - noteHeadBytes; len(steps) > most { // beyond the largest log
		p.cut(n, c, all)
		return
	}
	if p.log == 0 || int(n.head(p.log).class) != class {
		single, shifted := p.single(n), p.log != 0 && n.head(p.log).shifted
		log := n.take(class)
		if log == 0 && p.log != 0 && len(steps) > len(n.head(p.log).steps()) {
			p.cut(n, c, all)
			return
		}
		if log != 0 {
			p.forget(n)
			p.log = log
			n.head(log).single, n.head(log).shifted = single, shifted
		}
	}
	newest := all[len(all)-1]
	p.rolled, p.stamp = newest.value, max(p.stamp, newest.tick)
	if p.log == 0 {
		return
	}
	head := n.head(p.log)
	copy(head.steps(), steps)
	head.stamp, head.last, head.end = newest.tick, uint16(last), uint16(len(steps))
}

// cut gives up the older half of the notes: there is no memory for all.
func (p *past) cut(n *notes, c coding, all []note) { p.write(n, c, all[len(all)/2:]) }

// shift counts an increase in an earlier tick than the newest note's: whatever was noted since then was higher by it.
// born is the tick of the series' birth.
func (p *past) shift(n *notes, c coding, tick uint32, by uint64, born uint32, plus func(v, by uint64) uint64) {
	if p.stamp == 0 {
		p.rewrite(n, c, []note{{tick, by}}, tick)
		return
	}
	all := p.read(n, c, nil)
	newest := all[len(all)-1].tick
	tick = max(tick, newest-min(newest, n.horizon)) // as old as it may be, it is in the number
	before := n.before(all[0], born)
	at, found := slices.BinarySearchFunc(all, tick, func(one note, tick uint32) int { return int(one.tick) - int(tick) })
	for i := at; i < len(all); i++ {
		all[i].value = plus(all[i].value, by)
	}
	switch {
	case found:
	case at > 0:
		all = slices.Insert(all, at, note{tick, plus(all[at-1].value, by)})
	default:
		all = slices.Insert(all, 0, note{tick, plus(before, by)})
	}
	p.rewrite(n, c, all, newest)
}

// rewrite makes the log hold these notes, in place of what was saved of it.
func (p *past) rewrite(n *notes, c coding, all []note, now uint32) {
	if p.write(n, c, n.tidy(all, c, now)); p.log != 0 {
		n.head(p.log).shifted = true
	}
}

// single is how many of the newest notes changed once in their tick: those of a client that pushes every tick, not those
// of many requests.
func (p *past) single(n *notes) uint8 {
	if p.log == 0 {
		return mostSingle
	}
	return n.head(p.log).single
}

// shiftWeight is shift for the weight of a timer.
func (p *past) shiftWeight(n *notes, tick uint32, weight float64, born uint32) {
	p.shift(n, weightCoding, tick, math.Float64bits(weight), born, func(v, by uint64) uint64 {
		return math.Float64bits(finite(math.Float64frombits(v) + math.Float64frombits(by)))
	})
}

func plus(v, by uint64) uint64 { return v + by }

// shrink gives back what a log does not need whose notes have become too old.
func (p *past) shrink(n *notes, c coding, now uint32) {
	if p.log == 0 || n.head(p.log).shifted {
		return // what was shifted is saved first
	}
	head := n.head(p.log)
	switch used := int(head.end); {
	case now-min(head.stamp, now) > n.horizon:
		p.forget(n)
	case int(head.class) > n.classFor(used), now-min(head.stamp, now) > n.horizon/2:
		p.write(n, c, n.tidy(p.read(n, c, nil), c, now))
	}
}

// forget gives the log back once all its notes are older than every window: the newest value then says it all.
func (p *past) forget(n *notes) {
	if p.log != 0 {
		n.give(p.log)
		p.log = 0
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
