package aggregate

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// What is looked at for a series that nobody has seen is in no cache where there are many: its slot among the canonical forms, that of its
// object's name in the family, the entry there, the name that this has; and where its alias comes to lie. One waits for the
// other. New lines that follow one another share these waits: each step is done for all of them, and asks for what the next
// one looks at.

// foretoldMost is how many samples are foretold at once.
const foretoldMost = farLines

// foretold is a sample that is to come, and whose it is.
type foretold struct {
	decision
	sample *metric.Sample
	family *family // nil: there is none
	entry  *entry  // the one that is likely its object's; nil: there is none
}

// UnknownLines is how many recalled lines from one on nobody has seen before, but at most most.
func (w *Writer) UnknownLines(from, most int) int {
	n := 0
	for until := min(len(w.lines)-from, most); n < until && w.recalled[from+n].number == 0; n++ {
	}
	return n
}

// PrefetchNew says that Apply is called with these samples next, at these addresses, of the lines that were recalled from one on. It
// changes nothing but how long that takes, and holds until the next PrefetchNew, Quiesce or Offline. What is beyond its room is as if
// it were not foretold.
func (w *Writer) PrefetchNew(from int, next []metric.Sample) {
	if w.ahead = min(len(next), foretoldMost); w.ahead < 2 {
		w.ahead = 0 // it would share its waits with nobody
		return
	}
	w.askForAliases(w.lines[from:from+w.ahead], w.recalled[from:from+w.ahead])
	for i := range w.foretold[:w.ahead] {
		f := &w.foretold[i]
		f.sample, f.family, f.entry = &next[i], nil, nil
		w.table.decide(f.sample, &f.decision)
	}
	w.askForForms()
	w.askForNames()
	w.askForEntries()
	w.askForTheirNames()
}

// askForAliases has the slots come of aliases that are to be made, and the memory of their records.
func (w *Writer) askForAliases(lines []metric.Line, found []recalled) {
	w.askForSlots(found)
	var ahead [2 * foretoldMost]uintptr
	for i := range found {
		length := recordHeader + min(len(lines[i].Head)+len(lines[i].Rest), maxAliasBytes)
		first := w.table.aliases.place(found[i].hash, length)
		ahead[2*i], ahead[2*i+1] = first, first+uintptr(length-1)
	}
	memory.Prefetch(ahead[:2*len(found)])
}

// askForForms has the slots of the canonical forms come.
func (w *Writer) askForForms() {
	var ahead [foretoldMost]uintptr
	for i := range w.foretold[:w.ahead] {
		p := w.table.canon.probe(w.foretold[i].form.hash)
		ahead[i] = uintptr(unsafe.Pointer(p.slot()))
	}
	memory.Prefetch(ahead[:w.ahead])
}

// askForNames has the slots of the objects' names come.
func (w *Writer) askForNames() {
	var ahead [foretoldMost]uintptr
	for i := range w.foretold[:w.ahead] {
		if f := &w.foretold[i]; f.refused == metric.Applied {
			shard := w.table.index.shardOf(&f.form)
			shard.mu.Lock()
			if f.family = shard.family(f.form.family, f.form.familyKey()); f.family != nil {
				ahead[i] = f.family.entries.first(f.form.named)
			}
			shard.mu.Unlock()
		}
	}
	memory.Prefetch(ahead[:w.ahead])
}

// askForEntries has the entries come that these slots have.
func (w *Writer) askForEntries() {
	var ahead [2 * foretoldMost]uintptr
	for i := range w.foretold[:w.ahead] {
		if f := &w.foretold[i]; f.family != nil {
			f.family.shard.mu.Lock()
			f.entry = f.family.entries.likely(f.form.named)
			f.family.shard.mu.Unlock()
			ahead[2*i], ahead[2*i+1] = f.entry.ends()
		}
	}
	memory.Prefetch(ahead[:2*w.ahead])
}

// askForTheirNames has the names come of the objects that these entries are of.
func (w *Writer) askForTheirNames() {
	var ahead [foretoldMost]uintptr
	for i := range w.foretold[:w.ahead] {
		if e := w.foretold[i].entry; e != nil {
			ahead[i] = uintptr(unsafe.Pointer(unsafe.StringData(e.name)))
		}
	}
	memory.Prefetch(ahead[:w.ahead])
}

// ends are the addresses of an entry's first byte and its last: it lies in two cache lines.
func (e *entry) ends() (first, last uintptr) {
	first = uintptr(unsafe.Pointer(e))
	return first, first + unsafe.Sizeof(*e) - 1
}
