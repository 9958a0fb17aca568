package aggregate

import (
	"iter"
	"log/slog"
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

// Describer finds the object and the labels of a sample, or the reason to reject the sample. The
// table calls it once per new line, from many writers at once. It fills in the description and
// retains neither argument.
type Describer func(*metric.Sample, *metric.Description) metric.Reason

// Admission accepts or rejects new series and counts them. The table calls it with locks held: it
// never waits and never calls the table. The strings outlive the call, the object does not.
type Admission interface {
	// Admit enters one more series of a metric of an object, born in a tick, or returns the reason
	// of the rejection. It does not keep the labels.
	Admit(o *metric.Object, name string, labels metric.Labels, born uint32) metric.Reason
	// Enter is Admit for a restored series, which cannot be rejected.
	Enter(o *metric.Object, name string, labels metric.Labels, born uint32)
	// Leave reports that one series was removed. One of a shadow may leave twice: when it is hidden, too.
	Leave(o *metric.Object, name string, labels metric.Labels)
}

// unlimited admits every series.
type unlimited struct{}

func (unlimited) Admit(*metric.Object, string, metric.Labels, uint32) metric.Reason {
	return metric.Applied
}
func (unlimited) Enter(*metric.Object, string, metric.Labels, uint32) {}
func (unlimited) Leave(*metric.Object, string, metric.Labels)         {}

// Table holds all live series.
type Table struct {
	config    Config
	describe  Describer
	admission Admission
	observer  Observer
	kind.Env
	blocks   blocks
	aliases  *lookup.Aliases
	farBytes int64         // see lookup.FarBytes
	canon    *lookup.Slots // identities to series numbers plus lookup.FirstNumber
	index    *index.Index
	removals removalLog
	slow     slowPushLog
	mixed    kindConflicts
	others   atomic.Pointer[iter.Seq2[*Table, Twins]] // of other origins, see takeover.go
	// staleElsewhere is told of staleness markers for series of other origins; nil: nobody is.
	staleElsewhere atomic.Pointer[func(o metric.Object, name string, labels metric.Labels)]

	// written are the windows that the restored state was saved with. sameWindows is set if they
	// equal the table's.
	written     []window.Span
	sameWindows bool

	live       atomic.Int64 // series
	logBytes   atomic.Int64 // of history logs, beyond the size that each may have in any case
	nameBytes  atomic.Int64 // of objects, names and labels
	rejections atomic.Int64 // aliases that lead to a rejection
	shares     sync.Map     // of *atomic.Int64: the memory of timers, sets and long labels by namespace
	evicted    atomic.Uint64
	waiting    waiting
	// outOfMemory is set when memory was refused.
	outOfMemory atomic.Bool
	// beside is the number of series, and the memory, of the shadows beside the table; nil: none.
	beside func() (series int, bytes int64)
	// retryEpoch increases when a rejected series may be accepted after all. Remembered rejections
	// of earlier epochs are void.
	retryEpoch atomic.Uint32

	evictions evictions
	frames    frames

	seedMu  sync.Mutex // held while the table adopts another seed of sets
	sumsMu  sync.Mutex // guards the fields below; locked after evictions.mu
	writers []*Writer
	closed  kind.Sum // additions by closed writers
	retired kind.Sum // values of removed counters

}

// New makes an empty table. Its windows advance while Run runs.
func New(c Config, describe Describer, log *slog.Logger) *Table {
	return newTable(c, describe, log, window.NewClock(c.Windows), lookup.NewAliases(c.MaxBytes/2))
}

func newTable(c Config, describe Describer, log *slog.Logger, clock *window.Clock, aliases *lookup.Aliases) *Table {
	spans := window.NewSpans(c.Windows, clock.Tick)
	t := &Table{
		config: c, describe: describe, admission: unlimited{}, observer: noObserver{}, Env: kind.Env{Clock: clock,
			Spans: spans, Replicated: c.Replicated, Histograms: c.Histograms},
		aliases: aliases, blocks: blocks{pages: memory.NewArena(maxBlocks * pageBytes)}, canon: lookup.NewSlots(),
		index: index.New(), written: spans, slow: slowPushLog{log: log}, mixed: kindConflicts{log: log},
	}
	t.SetSeed.Store(newSetSeed())
	t.MayGrow, t.Left = t.memoryLeft, t.bytesLeft
	if c.Replicated {
		t.EachTwin = t.twinsOfGauge
	}
	t.farBytes = lookup.FarBytes
	t.Logs = window.NewLogs(spans, t.growLogs)
	t.Timers.Open(&t.Epochs, 2*maxBlocks*kind.BlockSeries) // each series has one at most
	return t
}

// growLogs reports whether history logs may grow by some bytes, and accounts for them. Negative
// numbers shrink them.
func (t *Table) growLogs(bytes int64) bool {
	if bytes > 0 && !t.MayGrow() {
		return false
	}
	t.logBytes.Add(bytes)
	return true
}

// SetAdmission sets the admission of new series. Call it before any other method.
func (t *Table) SetAdmission(a Admission) { t.admission = a }

// CountAlso makes MaxSeries and MaxBytes include the shadows of other origins, whose series and
// memory the function returns. Any goroutine calls it, with locks of the table held. Call CountAlso
// before the table is used.
func (t *Table) CountAlso(beside func() (series int, bytes int64)) { t.beside = beside }

// RetryRejected makes the next samples of rejected series ask for admission again.
func (t *Table) RetryRejected() { t.retryEpoch.Add(1) }

// Windows lists the windows that are kept, shortest first.
func (t *Table) Windows() []time.Duration {
	windows := slices.Clone(t.config.Windows)
	slices.Sort(windows)
	return windows
}

// Series is the number of live series.
func (t *Table) Series() int { return int(t.live.Load()) }

// DefaultWindow is the window of a query without one: a minute if the table keeps it, else the
// longest window.
func (t *Table) DefaultWindow() time.Duration {
	if slices.Contains(t.config.Windows, time.Minute) {
		return time.Minute
	}
	return slices.Max(t.config.Windows)
}

// Balance is both sides of A2: the sum of all additions to counters since the start, restored
// values included, and the sum of live and retired counters. They are equal while every writer is
// offline or at a batch boundary.
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

// Lifetime reads the lifetime clock. It is monotonic, independent of the machine's clock, and
// continues after a restart.
func (t *Table) Lifetime() time.Duration { return t.Clock.Now().Life }

// AppendBirths appends the labels and the birth of each live series of a metric of one object. The
// date is the receiving time of the birth, counted from the date at which the lifetime clock and
// the receiving time of this process would both have been zero. So it is a pure function of what
// the table saves and publishes: the clocks and the tick of the birth.
func (t *Table) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	now := t.Clock.Now()
	return t.appendBirths(dst, o, name, now.Epoch.Add(now.Life-now.At).UnixNano())
}

// appendBirths is AppendBirths. zero is the date of receiving time zero.
func (t *Table) appendBirths(dst []metric.Birth, o metric.Object, name string, zero int64) []metric.Birth {
	for _, found := range t.seriesOf(o, name) {
		for _, r := range found.Series {
			b, place := t.blocks.of(r.Number)
			b.history.Lock()
			if s := &b.series[place]; b.page.cells[place].State.Load() == r.State {
				dst = append(dst, metric.Birth{Labels: s.labels(), At: zero + int64(s.born)*int64(t.Clock.Tick)})
			}
			b.history.Unlock()
		}
	}
	return dst
}

// AppendBirths appends the labels and the birth of each live series of a metric of one object. The
// dates are those that the origin itself computes: without the correction of its clock, which each
// replica estimates for itself.
func (s *Shadow) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	return s.Table().appendBirths(dst, o, name, s.zero.Load())
}

// Idle returns the time since the last sample of a metric of an object, or 0 if there is no such
// metric.
func (s *Shadow) Idle(o metric.Object, name string) time.Duration { return s.Table().Idle(o, name) }

// UsedBytes is the memory that MaxBytes bounds.
func (t *Table) UsedBytes() int64 {
	return t.BodyBytes.Load() + t.logBytes.Load() + t.nameBytes.Load() + t.aliases.Used.Load()
}
