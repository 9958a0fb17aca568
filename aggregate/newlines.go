package aggregate

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Creating a series misses the cache several times in a row: at the slot of its identity, the slot
// of the object's name in the family, the entry there, the entry's name, and the memory of its
// alias. Consecutive new lines share these waits: each step is done for all lines, and prefetches
// the memory of the next step.

// mostNewSeries is the number of samples that PrefetchNew prepares at once.
const mostNewSeries = lookup.FarLines

// newSeries is a sample that is about to be applied, and the decision about its series.
type newSeries struct {
	decision
	sample *metric.Sample
	family *index.Family // nil: the metric is new
	entry  *index.Entry  // the entry that is probably its object's; nil: none is
}

// UnknownLines counts the consecutive looked-up lines from index from on that were never seen
// before, up to most.
func (w *Writer) UnknownLines(from, most int) int {
	n := 0
	for until := min(len(w.lines)-from, most); n < until && w.known[from+n].IsNew(); n++ {
	}
	return n
}

// PrefetchNew prepares Apply for the samples of the looked-up lines from index from on. Apply must
// be called with the same addresses. PrefetchNew only makes Apply faster. Its effect lasts until
// the next PrefetchNew, Quiesce or Offline. Samples beyond mostNewSeries are ignored.
func (w *Writer) PrefetchNew(from int, next []metric.Sample) {
	if w.prefetched = min(len(next), mostNewSeries); w.prefetched < 2 {
		w.prefetched = 0 // a single sample has no others to share its waits with
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

// prefetchIdentities prefetches the slots of the identities.
func (w *Writer) prefetchIdentities() {
	var ahead [mostNewSeries]uintptr
	for i := range w.newSeries[:w.prefetched] {
		p := w.table.canon.Probe(w.newSeries[i].identity.Sum)
		ahead[i] = uintptr(unsafe.Pointer(p.Slot()))
	}
	memory.Prefetch(ahead[:w.prefetched])
}

// prefetchNameSlots prefetches the slots of the objects' names.
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

// prefetchEntries prefetches the entries in these slots.
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

// prefetchNames prefetches the names of these entries.
func (w *Writer) prefetchNames() {
	var ahead [mostNewSeries]uintptr
	for i := range w.newSeries[:w.prefetched] {
		if e := w.newSeries[i].entry; e != nil {
			ahead[i] = uintptr(unsafe.Pointer(unsafe.StringData(e.Name)))
		}
	}
	memory.Prefetch(ahead[:w.prefetched])
}
