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

// lineResult is a line on its way to its series. Each step is done for all lines before the next: what one waits for in memory,
// the others wait for at the same time.
type lineResult struct {
	hash   uint64
	sender uint64
	mode   uint16 // of the line; once its record is found, the record's
	known  bool
	number uint32 // of the record that may be the line's; 0: none
	record *record
	leads  ref // where the record leads
}

// isNew reports whether no record was found.
func (r *lineResult) isNew() bool { return r.number == 0 }

// kind is that of a known line's samples.
func (r *lineResult) kind() metric.Kind { return metric.Kind(r.mode & kindMask) }

// sampled reports whether a known line has a rate.
func (r *lineResult) sampled() bool { return r.mode&sampledMode != 0 }

// rate is that of a sampled line.
func (r *lineResult) rate() float64 { return r.record.rate() }

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
	if l.AboutExternal {
		mode |= externalMode
	}
	if l.Sender != nil {
		sender = l.Sender.Key
	}
	return fold(a.lineHash.of(l.Head, l.Rest)^sender, a.lineHash.a^uint64(mode)), sender, mode
}

// isLine reports whether a record is that of a line.
func (r *record) isLine(l *metric.Line, k *lineResult) bool {
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

// lookupLines finds the records of lines. far: what they look at is asked for ahead.
func (a *aliases) lookupLines(lines []metric.Line, found []lineResult, far bool) {
	if a.hash(lines, found, far); far {
		a.findFar(lines, found)
	} else {
		a.findLines(found)
		a.touch(found)
	}
	a.compare(lines, found)
}

func (a *aliases) hash(lines []metric.Line, found []lineResult, far bool) {
	for len(found) > 0 {
		n := min(len(found), farLines)
		for i := range found[:n] {
			r := &found[i]
			r.hash, r.sender, r.mode = a.lineKey(&lines[i])
		}
		if far {
			a.prefetchSlots(found[:n])
		}
		lines, found = lines[n:], found[n:]
	}
}

// prefetchSlots prefetches the slots of up to farLines lines.
func (a *aliases) prefetchSlots(found []lineResult) {
	var ahead [farLines]uintptr
	slots := a.slots
	for i := range found {
		p := slots.probe(found[i].hash)
		ahead[i] = uintptr(unsafe.Pointer(p.slot()))
	}
	memory.Prefetch(ahead[:len(found)])
}

// findLines reads each line's slot.
func (a *aliases) findLines(found []lineResult) {
	slots := a.slots
	for i := range found {
		r := &found[i]
		p := slots.probe(r.hash)
		r.number = p.next()
	}
}

// findFar does what findLines does, and has the records come: of long ones the first two lines and the last.
func (a *aliases) findFar(lines []metric.Line, found []lineResult) {
	records := a.records
	for len(found) > 0 {
		n := min(len(found), farLines)
		a.findLines(found[:n])
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
func (a *aliases) touch(found []lineResult) {
	records := a.records
	for i := range found {
		if r := &found[i]; r.number != 0 {
			r.record = records.at(r.number)
			r.record.touch()
		}
	}
}

// compare holds each line against its record.
func (a *aliases) compare(lines []metric.Line, found []lineResult) {
	for i := range found {
		r := &found[i]
		// Another line of the same bits in its slot is so rare that it may be parsed.
		if r.known = r.number != 0 && r.record.isLine(&lines[i], r); r.known {
			target := r.record.target.Load()
			r.mode, r.leads, r.known = r.record.mode, targetRef(target), target&refusalBit == 0
		}
	}
}

// prefetchNew has the slots come of aliases that are to be made, and the memory of their records.
func (a *aliases) prefetchNew(lines []metric.Line, found []lineResult) {
	a.prefetchSlots(found)
	var ahead [2 * farLines]uintptr
	for i := range found {
		length := recordHeader + min(len(lines[i].Head)+len(lines[i].Rest), maxAliasBytes)
		first := a.place(found[i].hash, length)
		ahead[2*i], ahead[2*i+1] = first, first+uintptr(length-1)
	}
	memory.Prefetch(ahead[:2*len(found)])
}
