package aggregate

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// Watches looks at the series of many queries at once, without reading values. Nothing is added to the
// path of a sample. A look is two atomic loads for each word of 64 places in which a series is watched,
// however many watch it, and a step for each Watch of one with new samples. One goroutine uses it.
type Watches struct {
	merged *Merged
	all    map[*Watch]struct{}

	families []watchedFamily
	births   uint32 // of all families, at the last look
	ended    int    // watches with entries in families

	words   []watchedWord
	about   []wordWatches            // of words, in their order
	at      map[*atomic.Uint32]int   // the index of a word, by its count
	entries int                      // in about, stale ones too
	current fair.Shares[string, int] // those that are not stale, by namespace

	heard map[*Shadow]time.Time
}

// mostEntries bounds the entries that are not stale. Whoever may write autoscalers or triggers of a namespace may have any
// number of watches, so it has a share.
const mostEntries = 1 << 18

// watchedWord is what a look reads of 64 places. A sample marks its series as dirty until the roller has
// recorded it, and the roller counts that. It counts 64 series together: a neighbour that is pushed to all
// the time costs a reading per roll.
type watchedWord struct {
	recorded *atomic.Uint32
	dirty    *atomic.Uint64
	mask     uint64 // of the places that are watched
	seen     uint32 // the last count of recordings
}

// wordWatches is the rest of a watchedWord.
type wordWatches struct {
	block   *block
	first   uint32 // place
	entries []wordEntry
	states  [64]uint32 // of the series in the places of the mask
}

// wordEntry is a Watch of some places.
type wordEntry struct {
	watch *Watch
	mask  uint64
	round uint32
}

func (e *wordEntry) stale() bool { return e.round != e.watch.round }

// NewWatches makes Watches without a Watch.
func (m *Merged) NewWatches() *Watches {
	return &Watches{merged: m, all: map[*Watch]struct{}{}, at: map[*atomic.Uint32]int{}}
}

// Look calls the function of each Watch whose series may have changed, begun or ended since the last call.
// For series of another replica it does so with each flush. The functions must not use the Watches.
func (w *Watches) Look() {
	w.tidy()
	if w.heardNews() {
		for watch := range w.all {
			watch.changed()
		}
	}
	w.lookAtBirths()
	for i := range w.words {
		word := &w.words[i]
		if recorded := word.recorded.Load(); recorded != word.seen {
			word.seen = recorded
			w.wordChanged(i)
		} else if set := word.dirty.Load() & word.mask; set != 0 {
			w.placesChanged(i, set)
		}
	}
}

// lookAtBirths looks at each family if a series began in any.
func (w *Watches) lookAtBirths() {
	births := w.merged.own.index.AllBirths()
	if births == w.births {
		return
	}
	w.births = births
	for i := range w.families {
		f := &w.families[i]
		if births := f.births.Load(); births != f.seen {
			f.seen = births
			f.watch.behind = true
			f.watch.changed()
		}
	}
}

// wordChanged tells all watches of a word, and forgets the places whose series ended.
func (w *Watches) wordChanged(i int) {
	about := &w.about[i]
	for j := range about.entries {
		if e := &about.entries[j]; !e.stale() && e.mask != 0 {
			e.watch.changed()
		}
	}
	for set := w.words[i].mask; set != 0; set &= set - 1 {
		at := bits.TrailingZeros64(set)
		if about.block.page.cells[about.first+uint32(at)].State.Load() != about.states[at] {
			w.clear(i, 1<<at)
		}
	}
}

// clear forgets places of a word.
func (w *Watches) clear(i int, places uint64) {
	w.words[i].mask &^= places
	for j := range w.about[i].entries {
		w.about[i].entries[j].mask &^= places
	}
}

// placesChanged tells the watches of some places of a word. Places that are watched no more leave the mask.
func (w *Watches) placesChanged(i int, places uint64) {
	mask := uint64(0)
	for j := range w.about[i].entries {
		e := &w.about[i].entries[j]
		if e.stale() {
			continue
		}
		mask |= e.mask
		if e.mask&places != 0 {
			e.watch.changed()
		}
	}
	w.words[i].mask = mask
}

// add makes Look tell a Watch of the series in a place. A Watch adds all places of one round in a row.
func (w *Watches) add(watch *Watch, b *block, place, state uint32) {
	i, bit := w.word(b, place), uint64(1)<<(place%64)
	about := &w.about[i]
	if w.words[i].mask&bit != 0 && about.states[place%64] != state {
		w.succeeded(i, bit)
	}
	about.states[place%64] = state
	w.words[i].mask |= bit
	if last := len(about.entries) - 1; last >= 0 && about.entries[last].watch == watch &&
		!about.entries[last].stale() {
		about.entries[last].mask |= bit
		return
	}
	about.entries = append(about.entries, wordEntry{watch: watch, mask: bit, round: watch.round})
	watch.entries++
	w.entries++
}

// succeeded tells the watches of a place that another series took it, and forgets it.
func (w *Watches) succeeded(i int, bit uint64) {
	w.placesChanged(i, bit)
	w.clear(i, bit)
}

// word returns the index of the word of a place.
func (w *Watches) word(b *block, place uint32) int {
	recorded := &b.recorded[place/64]
	i, known := w.at[recorded]
	if !known {
		i = len(w.words)
		w.at[recorded] = i
		w.words = append(w.words, watchedWord{recorded: recorded, dirty: &b.page.dirty[place/64], seen: recorded.Load()})
		w.about = append(w.about, wordWatches{block: b, first: place &^ 63})
	}
	return i
}

// tidy removes stale entries once they are half of all.
func (w *Watches) tidy() {
	if 2*w.ended > len(w.all) {
		w.families = slices.DeleteFunc(w.families, func(f watchedFamily) bool { return f.watch.keys == nil })
		w.ended = 0
	}
	if 2*w.current.Held() >= w.entries {
		return
	}
	clear(w.at)
	words, about := w.words, w.about
	w.words, w.about, w.entries = words[:0], about[:0], 0
	for i := range words {
		wordWatches := &about[i]
		wordWatches.entries = slices.DeleteFunc(wordWatches.entries, func(e wordEntry) bool { return e.stale() })
		if len(wordWatches.entries) > 0 {
			w.at[words[i].recorded] = len(w.words)
			w.words, w.about = append(w.words, words[i]), append(w.about, *wordWatches)
			w.entries += len(wordWatches.entries)
		}
	}
	clear(words[len(w.words):])
	clear(about[len(w.about):])
}

// heardNews reports whether another origin has sent its state.
func (w *Watches) heardNews() (news bool) {
	if w.merged.alone() {
		return false
	}
	if w.heard == nil {
		w.heard = map[*Shadow]time.Time{}
	}
	for _, p := range *w.merged.peers.Load() {
		if at := p.shadow.HeardAt(); !at.Equal(w.heard[p.shadow]) {
			w.heard[p.shadow], news = at, true
		}
	}
	if len(w.heard) > 2*len(*w.merged.peers.Load()) {
		clear(w.heard)
	}
	return news
}

// Watch notices samples of the series that a query selects. Its methods belong to the goroutine of its
// Watches.
type Watch struct {
	watches *Watches
	query   metric.Query
	keys    []index.Key // an external metric may be of the namespace, or of none
	changed func()
	behind  bool // series began since they were found
	// round counts how often the series were found; entries of an earlier round are stale.
	round   uint32
	series  int  // that were found in this round, and are watched
	entries int  // of them, in words
	room    int  // for entries
	short   bool // there was no room for the rest
}

// mostWatched bounds the series of a Watch. A reader finds samples of those that are not watched when it reads again.
const mostWatched = 4096

// Watch watches the series that Objects or, without a resource, External would read. Look calls changed
// if one of them may have changed, begun or ended. It may report a change that is none.
func (w *Watches) Watch(q metric.Query, changed func()) *Watch {
	watch := &Watch{watches: w, query: q, changed: changed,
		keys: []index.Key{{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}}}
	if q.Resource == "" {
		watch.query.Object = ""
		if q.Namespace != "" {
			watch.keys = append(watch.keys, index.Key{Name: q.Expression.Name})
		}
	}
	for _, key := range watch.keys {
		births := w.merged.own.index.Births(key)
		w.families = append(w.families, watchedFamily{births: births, seen: births.Load(), watch: watch})
	}
	w.all[watch] = struct{}{}
	watch.find()
	return watch
}

// Follow finds series that began since the last call, and those for which there was no room. Without it, changes of
// theirs are not reported. The caller reads values after it, so none is missed.
func (o *Watch) Follow() {
	if o.behind || o.short && o.hasRoom() > o.entries {
		o.behind = false
		o.find()
	}
}

// End ends the watch.
func (o *Watch) End() {
	o.forget()
	o.watches.ended++
	o.keys = nil
	delete(o.watches.all, o)
}

// find finds the series.
func (o *Watch) find() {
	o.forget()
	o.room, o.short = o.hasRoom(), false
	t, buffer := o.watches.merged.own, index.BufferFor(0)
	defer buffer.Release()
	for _, key := range o.keys {
		for _, found := range t.index.Find(key, &o.query, t.index.ScopeOf(key, &o.query), buffer) {
			for _, ref := range found.Series {
				o.add(t, ref)
			}
		}
	}
	o.watches.current.Add(o.query.Namespace, o.entries)
}

// hasRoom is the number of entries that there is room for, beyond those that it has.
func (o *Watch) hasRoom() int { return o.watches.current.More(o.query.Namespace, mostEntries) }

// forget makes all entries stale.
func (o *Watch) forget() {
	o.round++
	o.watches.current.Add(o.query.Namespace, -o.entries)
	o.entries, o.series = 0, 0
}

func (o *Watch) add(t *Table, ref lookup.Ref) {
	b, place := t.blocks.of(ref.Number)
	if o.series == mostWatched || b.page.cells[place].State.Load() != ref.State {
		return
	}
	if o.short = o.entries >= o.room; o.short {
		return
	}
	o.series++
	o.watches.add(o, b, place, ref.State)
}

// watchedFamily is the count of births of one of a Watch's keys, with its last value.
type watchedFamily struct {
	births *atomic.Uint32
	seen   uint32
	watch  *Watch
}
