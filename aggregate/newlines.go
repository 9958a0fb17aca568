package aggregate

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// What is looked at for a series that nobody has seen is in no cache where there are many: its slot among the canonical forms, that of its
// object's name in the family, the entry there, the name that this has; and where its alias comes to lie. One waits for the
// other. New lines that follow one another share these waits: each step is done for all of them, and asks for what the next
// one looks at.

// mostNewSeries is how many samples are foretold at once.
const mostNewSeries = lookup.FarLines

// newSeries is a sample that is to come, and whose it is.
type newSeries struct {
	decision
	sample *metric.Sample
	family *index.Family // nil: there is none
	entry  *index.Entry  // the one that is likely its object's; nil: there is none
}

// UnknownLines is how many recalled lines from one on nobody has seen before, but at most most.
func (w *Writer) UnknownLines(from, most int) int {
	n := 0
	for until := min(len(w.lines)-from, most); n < until && w.known[from+n].IsNew(); n++ {
	}
	return n
}

// PrefetchNew says that Apply is called with these samples next, at these addresses, of the lines that were recalled from one on. It
// changes nothing but how long that takes, and holds until the next PrefetchNew, Quiesce or Offline. What is beyond its room is as if
// it were not foretold.
func (w *Writer) PrefetchNew(from int, next []metric.Sample) {
	if w.prefetched = min(len(next), mostNewSeries); w.prefetched < 2 {
		w.prefetched = 0 // it would share its waits with nobody
		return
	}
	w.table.aliases.PrefetchNew(w.lines[from:from+w.prefetched], w.known[from:from+w.prefetched])
	for i := range w.newSeries[:w.prefetched] {
		f := &w.newSeries[i]
		f.sample, f.family, f.entry = &next[i], nil, nil
		w.table.decide(f.sample, &f.decision)
	}
	w.prefetchIdentities()
	w.prefetchNameSlots()
	w.prefetchEntries()
	w.prefetchNames()
}

// prefetchIdentities has the slots of the canonical forms come.
func (w *Writer) prefetchIdentities() {
	var ahead [mostNewSeries]uintptr
	for i := range w.newSeries[:w.prefetched] {
		p := w.table.canon.Probe(w.newSeries[i].identity.Sum)
		ahead[i] = uintptr(unsafe.Pointer(p.Slot()))
	}
	memory.Prefetch(ahead[:w.prefetched])
}

// prefetchNameSlots has the slots of the objects' names come.
func (w *Writer) prefetchNameSlots() {
	var ahead [mostNewSeries]uintptr
	for i := range w.newSeries[:w.prefetched] {
		if f := &w.newSeries[i]; f.refused == metric.Applied {
			shard := w.table.index.ShardOf(&f.identity)
			shard.Mu.Lock()
			if f.family = shard.Family(f.identity.FamilySum, f.identity.Key()); f.family != nil {
				ahead[i] = f.family.Entries.First(f.identity.NamedSum)
			}
			shard.Mu.Unlock()
		}
	}
	memory.Prefetch(ahead[:w.prefetched])
}

// prefetchEntries has the entries come that these slots have.
func (w *Writer) prefetchEntries() {
	var ahead [2 * mostNewSeries]uintptr
	for i := range w.newSeries[:w.prefetched] {
		if f := &w.newSeries[i]; f.family != nil {
			f.family.Shard.Mu.Lock()
			f.entry = f.family.Entries.Likely(f.identity.NamedSum)
			f.family.Shard.Mu.Unlock()
			ahead[2*i], ahead[2*i+1] = f.entry.Ends()
		}
	}
	memory.Prefetch(ahead[:2*w.prefetched])
}

// prefetchNames has the names come of the objects that these entries are of.
func (w *Writer) prefetchNames() {
	var ahead [mostNewSeries]uintptr
	for i := range w.newSeries[:w.prefetched] {
		if e := w.newSeries[i].entry; e != nil {
			ahead[i] = uintptr(unsafe.Pointer(unsafe.StringData(e.Name)))
		}
	}
	memory.Prefetch(ahead[:w.prefetched])
}
