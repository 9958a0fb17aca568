package lookup

import (
	"bytes"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Bits of a record's mode. The kind and sampledMode come from the record: a line that is looked up
// is not parsed yet.
const (
	kindMask     = 0x0f
	sampledMode  = 0x10 // the record ends with the line's rate
	lineMode     = 0x20 // the record is of a line's Head and Rest, not of a sample's name and tags
	externalMode = 0x40
)

// Result is the state of one line's lookup. Each step is done for all lines before the next one, so
// that their cache misses overlap.
type Result struct {
	hash   uint64
	sender uint64
	mode   uint16 // of the line; once its record is found, the record's
	Known  bool
	number uint32 // of the record with the line's hash tag; 0: none
	record *record
	Ref    Ref // the series of a known line
}

// IsNew reports whether no record was found.
func (r *Result) IsNew() bool { return r.number == 0 }

// Kind is the kind of a known line.
func (r *Result) Kind() metric.Kind { return metric.Kind(r.mode & kindMask) }

// Sampled reports whether a known line has a rate.
func (r *Result) Sampled() bool { return r.mode&sampledMode != 0 }

// Rate is the rate of a sampled line.
func (r *Result) Rate() float64 { return r.record.rate() }

// lineKeyOf returns the key of a sample's line, with the sample's kind and rate, which its record
// keeps.
func (a *Aliases) lineKeyOf(s *metric.Sample) Key {
	l := s.Line
	hash, sender, mode := a.lineKey(l)
	k := Key{hash: hash, sender: sender, name: l.Head, tags: l.Rest, mode: mode | uint16(s.Kind), mask: 0xffff}
	if s.Rate != 0 {
		k.mode, k.rate = k.mode|sampledMode, s.Rate
	}
	return k
}

// lineKey returns the parts of a line's key other than its bytes. The key needs no kind, because
// the bytes of Rest include it.
func (a *Aliases) lineKey(l *metric.Line) (hash, sender uint64, mode uint16) {
	mode = lineMode | uint16(l.Dialect)<<8
	if l.DefaultExternal {
		mode |= externalMode
	}
	if l.Sender != nil {
		sender = l.Sender.Key
	}
	return fold(a.lineHash.Of(l.Head, l.Rest)^sender, a.lineHash.a^uint64(mode)), sender, mode
}

// isLine reports whether a record is of a line.
func (r *record) isLine(l *metric.Line, k *Result) bool {
	return r.sender == k.sender && r.mode&^(kindMask|sampledMode) == k.mode &&
		int(r.nameLength) == len(l.Head) && int(r.tagsLength) == len(l.Rest) &&
		bytes.Equal(r.name(), l.Head) && bytes.Equal(r.tags(), l.Rest)
}

// If the records exceed the processor's own cache, each step prefetches the memory of the next
// step, for a few lines at a time. A load that misses the cache stalls the instructions after it; a
// prefetch does not. For fewer records, prefetching costs more than it saves.
const (
	FarBytes  = 4 << 20      // lookups prefetch if the records take more than this, by default
	FarLines  = 8            // lines per call of memory.Prefetch
	farCaches = 3 * FarLines // cache lines of records per call
)

// LookupLines finds the records of lines. If far is set, each step prefetches the memory of the
// next one.
func (a *Aliases) LookupLines(lines []metric.Line, found []Result, far bool) {
	if a.hashLines(lines, found, far); far {
		a.findFar(lines, found)
	} else {
		a.findLines(found)
		a.touchRecords(found)
	}
	a.compare(lines, found)
}

func (a *Aliases) hashLines(lines []metric.Line, found []Result, far bool) {
	for len(found) > 0 {
		n := min(len(found), FarLines)
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

// prefetchSlots prefetches the slots of up to FarLines lines.
func (a *Aliases) prefetchSlots(found []Result) {
	var ahead [FarLines]uintptr
	slots := a.Slots
	for i := range found {
		p := slots.Probe(found[i].hash)
		ahead[i] = uintptr(unsafe.Pointer(p.Slot()))
	}
	memory.Prefetch(ahead[:len(found)])
}

// findLines reads each line's slot.
func (a *Aliases) findLines(found []Result) {
	slots := a.Slots
	for i := range found {
		r := &found[i]
		p := slots.Probe(r.hash)
		r.number = p.Next()
	}
}

// findFar is findLines, and prefetches the records: of a long one, the first two cache lines and
// the last.
func (a *Aliases) findFar(lines []metric.Line, found []Result) {
	records := a.Records
	for len(found) > 0 {
		n := min(len(found), FarLines)
		a.findLines(found[:n])
		var ahead [farCaches]uintptr
		for i := range found[:n] {
			r, l := &found[i], &lines[i]
			r.record = records.at(r.number) // number 0 is an address in the arena too
			first, last := uintptr(unsafe.Pointer(r.record)), uintptr(recordHeader+len(l.Head)+len(l.Rest)-1)
			at := i * 3
			ahead[at], ahead[at+1], ahead[at+2] = first, first+min(last, CacheLine), first+last
		}
		memory.Prefetch(ahead[:3*n])
		lines, found = lines[n:], found[n:]
	}
}

// touchRecords loads all records before compare reads them. Comparing one record takes so many
// instructions that the processor would not start the load of the next one meanwhile.
func (a *Aliases) touchRecords(found []Result) {
	records := a.Records
	for i := range found {
		if r := &found[i]; r.number != 0 {
			r.record = records.at(r.number)
			r.record.touch()
		}
	}
}

// compare compares each line with its record.
func (a *Aliases) compare(lines []metric.Line, found []Result) {
	for i := range found {
		r := &found[i]
		// Only the first record with the line's tag is compared. Two lines of one tag are so rare
		// that the second may be parsed.
		if r.Known = r.number != 0 && r.record.isLine(&lines[i], r); r.Known {
			target := r.record.Target.Load()
			r.mode, r.Ref, r.Known = r.record.mode, TargetRef(target), target&RejectionBit == 0
		}
	}
}

// PrefetchNew prefetches the slots and the probable memory of new aliases.
func (a *Aliases) PrefetchNew(lines []metric.Line, found []Result) {
	a.prefetchSlots(found)
	var ahead [2 * FarLines]uintptr
	for i := range found {
		length := recordHeader + min(len(lines[i].Head)+len(lines[i].Rest), maxAliasBytes)
		first := a.place(found[i].hash, length)
		ahead[2*i], ahead[2*i+1] = first, first+uintptr(length-1)
	}
	memory.Prefetch(ahead[:2*len(found)])
}
