package aggregate

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Describer says which series a sample belongs to, or why it may belong to none. It is asked once per line
// never seen before, by many writers at once, and fills in what it is handed; it keeps nothing of either.
type Describer func(*metric.Sample, *metric.Description) metric.Reason

// Admission decides whether a new series may be, and keeps the books of who holds how many. It is called with locks
// of the table held: it never waits and never calls the table. The strings that it is handed outlive the call, the object does not.
type Admission interface {
	// Admit enters one more series of a metric of an object, born in a tick, or says why it may not be.
	Admit(o *metric.Object, name string, born uint32) metric.Reason
	// Enter is Admit for a restored series: it is there.
	Enter(o *metric.Object, name string, born uint32)
	// Leave says that one series is gone.
	Leave(o *metric.Object, name string)
}

// unlimited admits everything, and keeps no books.
type unlimited struct{}

func (unlimited) Admit(*metric.Object, string, uint32) metric.Reason { return metric.Applied }
func (unlimited) Enter(*metric.Object, string, uint32)               {}
func (unlimited) Leave(*metric.Object, string)                       {}

// Table holds every live series.
type Table struct {
	config    Config
	describe  Describer
	admission Admission
	observer  Observer
	clock     *clock
	spans     []span
	notes     *notes
	blocks    blocks
	timers    timerLives
	aliases   *aliases
	farBytes  int64  // see recall.go
	canon     *slots // canonical forms to series numbers, off by firstNumber
	index     *index
	epochs    memory.Epochs
	graves    graves
	slow      slowPushers
	mixed     mixedKinds

	// setSeed seeds the hashes of set members. It is kept by the store, for restored members must match new ones.
	setSeed uint64
	// written are the windows that what is restored was written with; sameWindows: they are the table's own.
	written     []span
	sameWindows bool

	live      atomic.Int64 // series
	bodyBytes atomic.Int64 // of timers and sets, as of their last roll
	logBytes  atomic.Int64 // of logs of notes, beyond plainLog each
	nameBytes atomic.Int64 // of objects, names and labels
	refusals  atomic.Int64 // aliases that lead to a refusal
	evicted   atomic.Uint64
	// wanted counts the series that were refused for maxSeries since the sweep last made room; starved is set when
	// memory was refused.
	wanted  atomic.Int64
	starved atomic.Bool
	// turn changes whenever something that was refused may be let in.
	turn atomic.Uint32

	evictions evictions

	sumsMu  sync.Mutex // guards all below; after evictions.mu
	writers []*Writer
	closed  sum // what closed writers counted
	retired sum // what counters held that are gone

}

// New makes an empty table. Run must be running for its windows to turn.
func New(c Config, describe Describer, log *slog.Logger) *Table {
	clock := newClock(c.Windows)
	spans := newSpans(c.Windows, clock.tick)
	t := &Table{
		config: c, describe: describe, admission: unlimited{}, observer: noObserver{}, clock: clock, spans: spans,
		aliases: newAliases(c.MaxBytes / 2), blocks: blocks{pages: memory.NewArena(maxBlocks * pageBytes)}, canon: newSlots(),
		index: newIndex(), setSeed: rand.Uint64(), written: spans, slow: slowPushers{log: log}, mixed: mixedKinds{log: log},
	}
	t.farBytes = farBytes
	t.notes = newNotes(spans, t.growNotes)
	t.timers.open(&t.epochs)
	return t
}

// growNotes reports whether logs of notes may grow by some bytes, and enters them; what they shrink by is negative.
func (t *Table) growNotes(bytes int64) bool {
	if bytes > 0 && !t.mayGrow() {
		return false
	}
	t.logBytes.Add(bytes)
	return true
}

// SetAdmission has new series admitted by a. It is called before anything else of the table.
func (t *Table) SetAdmission(a Admission) { t.admission = a }

// RetryRejected says that series may come in that were refused before: their next samples ask again.
func (t *Table) RetryRejected() { t.turn.Add(1) }

// Windows lists the windows that can be asked for, shortest first.
func (t *Table) Windows() []time.Duration {
	windows := slices.Clone(t.config.Windows)
	slices.Sort(windows)
	return windows
}

// Series is how many series are live.
func (t *Table) Series() int { return int(t.live.Load()) }

// defaultWindow is what a metric means that is asked for without a window: a minute, or the longest that is kept.
func (t *Table) defaultWindow() time.Duration {
	if slices.Contains(t.config.Windows, time.Minute) {
		return time.Minute
	}
	return slices.Max(t.config.Windows)
}

// ttl is how long a series lives without a sample; false: until it is deleted.
func (t *Table) ttl(b *block, place uint32) (time.Duration, bool) {
	switch own := b.page.ttls[place].Load(); {
	case own == ttlForever:
		return 0, false
	case own != 0:
		return ttlDuration(own), true
	case b.series[place].entry.external():
		return t.config.ExternalTTL, true
	}
	return t.config.ObjectTTL, true
}

// expired reports whether a series has outlived its time. A series that was touched since the last roll has not.
func (t *Table) expired(b *block, place uint32, now moment) bool {
	ttl, mortal := t.ttl(b, place)
	return mortal && b.idleFor(place, now) > ttl
}

// idleFor is how long ago the last sample of a series was noted.
func (b *block) idleFor(place uint32, now moment) time.Duration {
	if b.page.dirty.has(place) {
		return 0
	}
	return now.since(b.page.cells[place].seen.Load())
}

// Balance is both sides of A2: what the writers applied to counters since the start (what was restored counts as
// applied), and what live and retired counters hold. At a quiet moment, every writer parked or past a
// batch, they are equal.
func (t *Table) Balance() (applied, held [2]int64) {
	t.evictions.mu.Lock() // nothing may be on its way from live to retired
	defer t.evictions.mu.Unlock()
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	in, out := t.closed, t.retired
	for _, w := range t.writers {
		in.add(w.shown.whole.Load(), w.shown.fraction.Load())
	}
	t.evictions.addPendingLocked(t, &out)
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		for place := range uint32(blockSeries) {
			t.addCounter(b, place, &out)
		}
	}
	return [2]int64{in.whole, int64(in.fraction)}, [2]int64{out.whole, int64(out.fraction)}
}

func (t *Table) addCounter(b *block, place uint32, to *sum) {
	b.history.Lock()
	defer b.history.Unlock()
	c := &b.page.cells[place]
	if c.state.Load()&live == 0 || b.page.kinds[place] != metric.Counter {
		return
	}
	to.add(counterSum(b, place))
}

// counterSum is what a counter holds, as sum.add takes it. A fraction's units never go below zero.
func counterSum(b *block, place uint32) (whole int64, fraction uint64) {
	whole = int64(b.page.cells[place].value.Load())
	if body := b.body(place); body != nil {
		fraction = uint64(body.fraction.units.Load())
	}
	return whole, fraction
}
