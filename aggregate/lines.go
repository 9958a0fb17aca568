package aggregate

import (
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// knownTimer is the bin that a known line's observation falls into, if the line is of a timer.
type knownTimer struct {
	live *kind.TimerLive // nil: not a timer, or a timer without observations
	cell *kind.Cell
	bin  int
}

// LookupLines looks up lines for ApplyKnown. The results hold until Quiesce or Offline.
func (w *Writer) LookupLines(lines []metric.Line) {
	if len(lines) > len(w.known) {
		w.known, w.knownTimers = make([]lookup.Result, len(lines)), make([]knownTimer, len(lines))
	}
	w.lines = lines
	far := w.isCold() || w.table.aliases.Records.Bytes() > w.table.farBytes
	w.awake += len(lines)
	found, timers := w.known[:len(lines)], w.knownTimers[:len(lines)]
	w.table.aliases.LookupLines(lines, found, far)
	if far {
		w.prefetchCells(found)
	}
	if w.someTimers = w.lookAtCells(found, timers); w.someTimers {
		w.prefetchTimers(lines, timers)
	}
}

// isCold reports whether the writer has waited lately. Meanwhile other work has replaced the
// series' memory in the processor's caches, however few series there are.
func (w *Writer) isCold() bool { return w.awake < warmLines }

// warmLines is how many lines a writer applies after a wait before the memory that they use is
// taken to be in the processor's caches.
const warmLines = 1 << 14

// prefetchCells prefetches the cells, and the words with their dirty bits.
func (w *Writer) prefetchCells(found []lookup.Result) {
	blocks := &w.table.blocks
	for len(found) > 0 {
		n := min(len(found), lookup.FarLines)
		var ahead [2 * lookup.FarLines]uintptr
		for i := range found[:n] {
			if r := &found[i]; r.Known {
				page, place := blocks.pageOf(r.Ref.Number)
				at := i * 2
				ahead[at], ahead[at+1] = uintptr(unsafe.Pointer(&page.cells[place])), uintptr(unsafe.Pointer(&page.dirty[place/64]))
			}
		}
		memory.Prefetch(ahead[:2*n])
		found = found[n:]
	}
}

// lookAtCells checks that each series still exists, and reports whether some lines are of timers.
func (w *Writer) lookAtCells(found []lookup.Result, timers []knownTimer) (anyTimer bool) {
	blocks := &w.table.blocks
	for i := range found {
		r, timer := &found[i], &timers[i]
		timer.live = nil
		if !r.Known {
			continue
		}
		page, place := blocks.pageOf(r.Ref.Number)
		c := &page.cells[place]
		if r.Known = c.State.Load() == r.Ref.State; r.Known && r.Kind() == metric.Timer {
			timer.cell, timer.live = c, w.table.Timers.Of(c)
			anyTimer = anyTimer || timer.live != nil
		}
	}
	return anyTimer
}

// prefetchTimers computes the bins and prefetches their cache lines: live parts are large, so those
// of a few thousand timers are in no cache.
func (w *Writer) prefetchTimers(lines []metric.Line, timers []knownTimer) {
	var ahead [lookup.FarLines]uintptr
	n := 0
	for i := range timers {
		if r, l := &timers[i], &lines[i]; r.live != nil {
			r.bin = kind.BinOf(float64(l.Whole) + l.Fraction)
			ahead[n] = uintptr(unsafe.Pointer(r.live.Line(0, r.bin)))
			if n++; n == lookup.FarLines {
				memory.Prefetch(ahead[:])
				n = 0
			}
		}
	}
	memory.Prefetch(ahead[:n])
}

// ApplyKnown applies the looked-up lines from index from on, up to the first that has to be parsed,
// and returns the number of applied lines. A line to reject also has to be parsed, to find the
// reason.
func (w *Writer) ApplyKnown(from int) (applied int) {
	for at := from; at < len(w.lines); {
		until := min(at+insideLines, len(w.lines))
		if at = w.applyKnownRun(at, until); at < until {
			return at - from
		}
	}
	return len(w.lines) - from
}

// insideLines is the number of lines per critical section, if some of them are of timers. It bounds
// the wait of a goroutine that swaps the halves of a timer, and the bins that the second half needs
// during that wait.
const insideLines = 8

// applyKnownRun applies lines up to the first that has to be parsed, and returns that line's index.
func (w *Writer) applyKnownRun(from, until int) int {
	if w.someTimers {
		w.Slot.Enter()
		defer w.Slot.Exit()
	}
	for i := from; i < until; i++ {
		if !w.applyKnown(&w.lines[i], &w.known[i], &w.knownTimers[i]) {
			return i
		}
	}
	return until
}

// applyKnown applies one line to its series. It returns false if the line has to be parsed.
func (w *Writer) applyKnown(l *metric.Line, r *lookup.Result, timer *knownTimer) bool {
	if !r.Known {
		return false
	}
	t := w.table
	k := r.Kind()
	if k == metric.Counter && l.Numeric && l.Fraction == 0 && !r.Sampled() {
		page, place := t.blocks.pageOf(r.Ref.Number)
		if l.Whole > metric.MaxIncrement || !page.cells[place].Add(l.Whole) {
			return false
		}
		w.Counted.Add(l.Whole, 0)
		page.dirty.Mark(place)
		return true
	}
	if !l.Numeric && k != metric.Set {
		return false
	}
	if timer.live != nil && !r.Sampled() && timer.live.Observe(uint32(timer.cell.Value.Load()&kind.HotHalf), timer.bin,
		float64(l.Whole)+l.Fraction) {
		page, place := t.blocks.pageOf(r.Ref.Number)
		page.dirty.Mark(place)
		return true
	}
	s := &w.parsed
	s.Kind, s.Whole, s.Fraction, s.Rate, s.Member = k, l.Whole, l.Fraction, 0, nil
	switch k {
	case metric.Gauge:
		s.Op = metric.Assign
	case metric.Set:
		s.Member = l.Value
	}
	if r.Sampled() {
		s.Rate = r.Rate()
	}
	b, place := t.blocks.of(r.Ref.Number)
	return w.updateNow(b, place, s) == metric.Applied
}

// Remote write sends running totals and gauges with the same labels again and again. Their labels
// as on the wire are looked up as lines are (LookupLines), and the values are applied one by one.

// KnownKind returns the kind of the series of the i-th looked-up line, or false if the line was
// never seen.
func (w *Writer) KnownKind(i int) (metric.Kind, bool) {
	r := &w.known[i]
	return r.Kind(), r.Known
}

// ApplyKnownSample applies a sample to the series of the i-th looked-up line, which is known. The
// sample needs no name and no labels. False: nothing was applied, because the series was removed or
// the sample is to be rejected; Apply with the labels finds out.
func (w *Writer) ApplyKnownSample(i int, s *metric.Sample) bool {
	to := w.known[i].Ref
	if s.Op.PreAggregated() {
		rejected, lives := w.tryPreAggregated(to, s)
		return lives && rejected == metric.Applied
	}
	b, place := w.table.blocks.of(to.Number)
	if b.page.cells[place].State.Load() != to.State || w.dated(s) {
		return false
	}
	return w.updateNow(b, place, s) == metric.Applied
}

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
// before, up to limit.
func (w *Writer) UnknownLines(from, limit int) int {
	n := 0
	for until := min(len(w.lines)-from, limit); n < until && w.known[from+n].IsNew(); n++ {
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
		if f := &w.newSeries[i]; f.rejected == metric.Applied {
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
