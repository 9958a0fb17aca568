package aggregate

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
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
	kind.Env
	blocks   blocks
	aliases  *lookup.Aliases
	farBytes int64         // see recall.go
	canon    *lookup.Slots // canonical forms to series numbers, off by firstNumber
	index    *index.Index
	removals removalLog
	slow     slowPushLog
	mixed    kindConflicts

	// written are the windows that what is restored was written with; sameWindows: they are the table's own.
	written     []window.Span
	sameWindows bool

	live      atomic.Int64 // series
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
	closed  kind.Sum // what closed writers counted
	retired kind.Sum // what counters held that are gone

}

// New makes an empty table. Run must be running for its windows to turn.
func New(c Config, describe Describer, log *slog.Logger) *Table {
	clock := window.NewClock(c.Windows)
	spans := window.NewSpans(c.Windows, clock.Tick)
	t := &Table{
		config: c, describe: describe, admission: unlimited{}, observer: noObserver{}, Env: kind.Env{Clock: clock, Spans: spans, SetSeed: rand.Uint64()},
		aliases: lookup.NewAliases(c.MaxBytes / 2), blocks: blocks{pages: memory.NewArena(maxBlocks * pageBytes)}, canon: lookup.NewSlots(),
		index: index.New(), written: spans, slow: slowPushLog{log: log}, mixed: kindConflicts{log: log},
	}
	t.MayGrow = t.memoryLeft
	t.farBytes = lookup.FarBytes
	t.Logs = window.NewLogs(spans, t.growLogs)
	t.Timers.Open(&t.Epochs, 2*maxBlocks*kind.BlockSeries) // each series has one at most
	return t
}

// growLogs reports whether logs of notes may grow by some bytes, and enters them; what they shrink by is negative.
func (t *Table) growLogs(bytes int64) bool {
	if bytes > 0 && !t.MayGrow() {
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
		in.Add(w.shown.whole.Load(), w.shown.fraction.Load())
	}
	t.evictions.addPendingLocked(t, &out)
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			t.addCounter(b, place, &out)
		}
	}
	return [2]int64{in.Whole, int64(in.Fraction)}, [2]int64{out.Whole, int64(out.Fraction)}
}

func (t *Table) addCounter(b *block, place uint32, to *kind.Sum) {
	b.history.Lock()
	defer b.history.Unlock()
	c := &b.page.cells[place]
	if c.State.Load()&kind.Live == 0 || b.page.kinds[place] != metric.Counter {
		return
	}
	to.Add(kind.Held(b.handle(place)))
}

// Lifetime is what the lifetime clock shows. It neither falls nor leaps, whoever sets the machine's clock, and goes on
// after a restart.
func (t *Table) Lifetime() time.Duration { return t.Clock.Now().Life }
