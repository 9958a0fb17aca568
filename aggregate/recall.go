package aggregate

import (
	"bytes"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Bits of a record's mode. Below lineMode is the kind, which a line that is looked up does not know yet.
const (
	kindMask     = 0x0f
	sampledMode  = 0x10 // the record ends with the line's rate
	lineMode     = 0x20 // the record is of a line's Head and Rest, not of a sample's name and tags
	externalMode = 0x40
)

// recalled is a line on its way to its series. Each step is done for all lines before the next: what one waits for in memory,
// the others wait for at the same time.
type recalled struct {
	hash   uint64
	sender uint64
	mode   uint16 // of the line; once its record is found, the record's
	known  bool
	number uint32 // of the record that may be the line's; 0: none
	record *record
	leads  ref // where the record leads

	// Of a timer:
	live *timerLive // nil: nothing was observed yet
	cell *cell
	bin  int
}

// lineKeyOf is the key of the line of a sample, with what its record is to say of the sample.
func (a *aliases) lineKeyOf(s *metric.Sample) aliasKey {
	l := s.Line
	hash, sender, mode := a.lineKey(l)
	k := aliasKey{hash: hash, sender: sender, name: l.Head, tags: l.Rest, mode: mode | uint16(s.Kind), mask: 0xffff}
	if s.Rate != 0 {
		k.mode, k.rate = k.mode|sampledMode, s.Rate
	}
	return k
}

// lineKey is what a line is looked up by beside its bytes. Its kind stands in Rest, so it need not be known.
func (a *aliases) lineKey(l *metric.Line) (hash, sender uint64, mode uint16) {
	mode = lineMode | uint16(l.Dialect)<<8
	if l.DefaultExternal {
		mode |= externalMode
	}
	if l.Sender != nil {
		sender = l.Sender.Key
	}
	return fold(a.lineHash.of(l.Head, l.Rest)^sender, a.lineHash.a^uint64(mode)), sender, mode
}

// isLine reports whether a record is that of a line.
func (r *record) isLine(l *metric.Line, k *recalled) bool {
	return r.sender == k.sender && r.mode&^(kindMask|sampledMode) == k.mode &&
		int(r.nameLength) == len(l.Head) && int(r.tagsLength) == len(l.Rest) &&
		bytes.Equal(r.name(), l.Head) && bytes.Equal(r.tags(), l.Rest)
}

// Where what lines look at is more than the processor's own cache holds, it is asked for one step ahead, some lines at a time: a load
// that waits holds up all that come a few hundred instructions behind it, asking does not. Where it is less, asking costs more than it brings.
const (
	farBytes  = 4 << 20 // of records, if nobody says otherwise
	farLines  = 8       // whose addresses are gathered
	farCaches = 3 * farLines
)

// LookupLines looks up lines for ApplyKnown. What it finds holds until Quiesce or Offline.
func (w *Writer) LookupLines(lines []metric.Line) {
	if len(lines) > len(w.recalled) {
		w.recalled = make([]recalled, len(lines))
	}
	w.lines = lines
	w.far = w.table.aliases.records.bytes() > w.table.farBytes
	found := w.recalled[:len(lines)]
	if w.hash(lines, found); w.far {
		w.findFar(lines, found)
	} else {
		w.find(found)
		w.touch(found)
	}
	w.compare(lines, found)
	if w.far {
		w.askForCells(found)
	}
	if w.timers = w.reach(found); w.timers {
		w.reachTimers(lines, found)
	}
}

func (w *Writer) hash(lines []metric.Line, found []recalled) {
	for len(found) > 0 {
		n := min(len(found), farLines)
		for i := range found[:n] {
			r := &found[i]
			r.hash, r.sender, r.mode = w.table.aliases.lineKey(&lines[i])
		}
		if w.far {
			w.askForSlots(found[:n])
		}
		lines, found = lines[n:], found[n:]
	}
}

// askForSlots has the slots of a few lines come.
func (w *Writer) askForSlots(found []recalled) {
	var ahead [farLines]uintptr
	slots := w.table.aliases.slots
	for i := range found {
		p := slots.probe(found[i].hash)
		ahead[i] = uintptr(unsafe.Pointer(p.slot()))
	}
	memory.Prefetch(ahead[:len(found)])
}

// find reads each line's slot.
func (w *Writer) find(found []recalled) {
	slots := w.table.aliases.slots
	for i := range found {
		r := &found[i]
		p := slots.probe(r.hash)
		r.number = p.next()
	}
}

// findFar does what find does, and has the records come: of long ones the first two lines and the last.
func (w *Writer) findFar(lines []metric.Line, found []recalled) {
	records := w.table.aliases.records
	for len(found) > 0 {
		n := min(len(found), farLines)
		w.find(found[:n])
		var ahead [farCaches]uintptr
		for i := range found[:n] {
			r, l := &found[i], &lines[i]
			r.record = records.at(r.number) // of 0, too: it lies in the arena
			first, last := uintptr(unsafe.Pointer(r.record)), uintptr(recordHeader+len(l.Head)+len(l.Rest)-1)
			at := i * 3
			ahead[at], ahead[at+1], ahead[at+2] = first, first+min(last, cacheLine), first+last
		}
		memory.Prefetch(ahead[:3*n])
		lines, found = lines[n:], found[n:]
	}
}

// touch has the records come: the comparison of one takes so many steps that the processor does not see the next one.
func (w *Writer) touch(found []recalled) {
	records := w.table.aliases.records
	for i := range found {
		if r := &found[i]; r.number != 0 {
			r.record = records.at(r.number)
			r.record.touch()
		}
	}
}

// compare holds each line against its record.
func (w *Writer) compare(lines []metric.Line, found []recalled) {
	for i := range found {
		r := &found[i]
		// Another line of the same bits in its slot is so rare that it may be parsed.
		if r.known = r.number != 0 && r.record.isLine(&lines[i], r); r.known {
			target := r.record.target.Load()
			r.mode, r.leads, r.known = r.record.mode, targetRef(target), target&refusalBit == 0
		}
	}
}

// askForCells has the cells come, and the words with their marks.
func (w *Writer) askForCells(found []recalled) {
	blocks := &w.table.blocks
	for len(found) > 0 {
		n := min(len(found), farLines)
		var ahead [2 * farLines]uintptr
		for i := range found[:n] {
			if r := &found[i]; r.known {
				page, place := blocks.pageOf(r.leads.number)
				at := i * 2
				ahead[at], ahead[at+1] = uintptr(unsafe.Pointer(&page.cells[place])), uintptr(unsafe.Pointer(&page.dirty[place/64]))
			}
		}
		memory.Prefetch(ahead[:2*n])
		found = found[n:]
	}
}

// reach looks whether the series is still there. True: there are timers.
func (w *Writer) reach(found []recalled) (timers bool) {
	blocks := &w.table.blocks
	for i := range found {
		r := &found[i]
		r.live = nil
		if !r.known {
			continue
		}
		page, place := blocks.pageOf(r.leads.number)
		c := &page.cells[place]
		if r.known = c.state.Load() == r.leads.state; r.known && metric.Kind(r.mode&kindMask) == metric.Timer {
			r.cell, r.live = c, w.table.timers.of(c)
			timers = timers || r.live != nil
		}
	}
	return timers
}

// reachTimers finds the bins, and has their lines come: a live part is so large that those of some thousand timers are far.
func (w *Writer) reachTimers(lines []metric.Line, found []recalled) {
	var ahead [farLines]uintptr
	n := 0
	for i := range found {
		if r, l := &found[i], &lines[i]; r.live != nil {
			r.bin = binOf(float64(l.Whole) + l.Fraction)
			ahead[n] = uintptr(unsafe.Pointer(r.live.line(0, r.bin)))
			if n++; n == farLines {
				memory.Prefetch(ahead[:])
				n = 0
			}
		}
	}
	memory.Prefetch(ahead[:n])
}

// ApplyKnown applies recalled lines from one on, up to the first that has to be parsed, and returns how many it applied. Which
// lines are refused, and why, is found out anew by parsing them.
func (w *Writer) ApplyKnown(from int) (applied int) {
	for at := from; at < len(w.lines); {
		until := min(at+insideLines, len(w.lines))
		if at = w.repeatSome(at, until); at < until {
			return at - from
		}
	}
	return len(w.lines) - from
}

// insideLines is how many lines a writer is inside for, where there are timers among them: whoever turns one waits for no more, and no
// more come into the second half of a timer than it has places for.
const insideLines = 8

// repeatSome applies lines from one to another, up to the first that has to be parsed, and returns its place.
func (w *Writer) repeatSome(from, until int) int {
	if w.timers {
		w.slot.Enter()
		defer w.slot.Exit()
	}
	for i := from; i < until; i++ {
		if !w.repeat(&w.lines[i], &w.recalled[i]) {
			return i
		}
	}
	return until
}

// repeat applies one line to its series, if it is known and may be.
func (w *Writer) repeat(l *metric.Line, r *recalled) bool {
	if !r.known {
		return false
	}
	t := w.table
	kind := metric.Kind(r.mode & kindMask)
	if kind == metric.Counter && l.Numeric && l.Fraction == 0 && r.mode&sampledMode == 0 {
		page, place := t.blocks.pageOf(r.leads.number)
		if l.Whole > maxIncrement || !page.cells[place].add(l.Whole) {
			return false
		}
		w.counted.add(l.Whole, 0)
		page.dirty.mark(place)
		return true
	}
	if !l.Numeric && kind != metric.Set {
		return false
	}
	if r.live != nil && r.mode&sampledMode == 0 && r.live.observe(uint32(r.cell.value.Load()&hotHalf), r.bin, float64(l.Whole)+l.Fraction) {
		page, place := t.blocks.pageOf(r.leads.number)
		page.dirty.mark(place)
		return true
	}
	s := &w.repeated
	s.Kind, s.Whole, s.Fraction, s.Rate, s.Member = kind, l.Whole, l.Fraction, 0, nil
	switch kind {
	case metric.Gauge:
		s.Op = metric.Assign
	case metric.Set:
		s.Member = l.Value
	}
	if r.mode&sampledMode != 0 {
		s.Rate = r.record.rate()
	}
	b, place := t.blocks.of(r.leads.number)
	return w.updateNow(b, place, s) == metric.Applied
}
