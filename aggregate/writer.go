package aggregate

import (
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// Writer is one goroutine's access to the table. Its scratch space makes a sample cost no
// allocation.
type Writer struct {
	table *Table
	kind.Applier

	// shown is the sum of additions to counters as of the last batch boundary, for Balance.
	shown struct {
		whole    atomic.Int64
		fraction atomic.Uint64
	}

	lines       []metric.Line // of the last LookupLines
	known       []lookup.Result
	knownTimers []knownTimer
	someTimers  bool // some of the lines are of timers
	awake       int  // lines looked up since Online
	parsed      metric.Sample

	frame      frameMark
	decided    decision // about the current sample
	newSeries  [mostNewSeries]newSeries
	prefetched int // how many of newSeries are valid
}

// NewWriter returns a writer that is online. Close releases it.
func (t *Table) NewWriter() *Writer {
	w := &Writer{table: t, Applier: kind.Applier{Env: &t.Env, Slot: t.Epochs.Register(), Now: t.Clock.Now()}}
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	t.writers = append(t.writers, w)
	return w
}

// Close releases the writer.
func (w *Writer) Close() {
	t := w.table
	t.Epochs.Unregister(w.Slot)
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	for i, writer := range t.writers {
		if writer == w {
			t.writers = append(t.writers[:i], t.writers[i+1:]...)
			t.closed.Add(w.Counted.Whole, w.Counted.Fraction)
			return
		}
	}
}

// Quiesce marks a batch boundary: the writer uses nothing that it looked up before.
func (w *Writer) Quiesce() {
	w.prefetched = 0
	w.show()
	w.Slot.Quiesce(&w.table.Epochs)
	w.Now = w.table.Clock.Now()
}

// Offline is Quiesce before a wait of any length: memory is reclaimed without waiting for the
// writer.
func (w *Writer) Offline() {
	w.prefetched = 0
	w.show()
	w.Slot.Offline()
}

// Online ends Offline.
func (w *Writer) Online() {
	w.awake = 0
	w.Slot.Online(&w.table.Epochs)
	w.Now = w.table.Clock.Now()
}

func (w *Writer) show() {
	w.shown.whole.Store(w.Counted.Whole)
	w.shown.fraction.Store(w.Counted.Fraction)
}

// Apply applies one sample, or returns the reason of the rejection. The next read sees an applied
// sample.
func (w *Writer) Apply(s *metric.Sample) metric.Reason {
	if s.Object != nil || len(s.Fields) > 0 || s.Arrived != 0 || s.Op.PreAggregated() {
		return w.applyDescribed(s, nil)
	}
	t := w.table
	key := t.aliases.KeyOf(s)
	if r := t.aliases.Find(&key); r != nil {
		target := r.Target.Load()
		if target&lookup.RejectionBit == 0 {
			to := lookup.TargetRef(target)
			b, place := t.blocks.of(to.Number)
			if b.page.cells[place].State.Load() == to.State {
				return w.update(b, place, to.State, s)
			}
		} else if reason, epoch := lookup.TargetRejection(target); epoch == t.retryEpoch.Load() {
			return reason
		}
	}
	return w.applyDescribed(s, &key)
}

// update adds a sample to its series: first the value, then the dirty bit. The roller clears the
// bit before it reads the value, so a value that it misses is marked again.
func (w *Writer) update(b *block, place, state uint32, s *metric.Sample) metric.Reason {
	if w.includes(b, place) {
		return metric.Applied
	}
	if w.dated(s) {
		return w.updateDated(b, place, state, s)
	}
	return w.updateNow(b, place, s)
}

func (w *Writer) updateNow(b *block, place uint32, s *metric.Sample) metric.Reason {
	if rejected := w.Applier.Apply(b.handle(place), s); rejected != metric.Applied {
		return rejected
	}
	if s.TTL != 0 {
		b.page.setTTL(place, s.TTL)
		b.page.expectEnd(place, w.Now)
	}
	b.page.dirty.Mark(place)
	return metric.Applied
}

// applyPreAggregated applies a running total or a histogram. Clients push these at intervals, not
// once per request, so they may take the history lock: the client's last total and the counted
// growth change together. A removed series gets no late total, which would count as growth. A new
// series begins with that total instead.
func (w *Writer) applyPreAggregated(to lookup.Ref, s *metric.Sample) metric.Reason {
	for {
		rejected, lives := w.tryPreAggregated(to, s)
		if lives {
			return rejected
		}
		if to, rejected = w.seek(s); rejected != metric.Applied {
			return rejected
		}
	}
}

// tryPreAggregated applies the sample and records it at once. It returns false if the series was
// removed.
func (w *Writer) tryPreAggregated(to lookup.Ref, s *metric.Sample) (rejected metric.Reason, lives bool) {
	t := w.table
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != to.State {
		return metric.Applied, false
	}
	if w.includes(b, place) {
		return metric.Applied, true
	}
	if t.Replicated && s.Op == metric.Accumulate {
		t.continueLocked(b, place)
	}
	now := t.Clock.Now()
	tick := t.arrivalLocked(b, place, s, now)
	if today := b.tickLocked(place, now); tick < today && b.page.cells[place].History.Stamp != 0 {
		t.noteLocked(b, place, today, now) // earlier samples count in their own tick
	}
	stamp := b.page.cells[place].History.Stamp
	rejected = kind.Of(s.Kind).ApplyPreAggregatedLocked(&w.Applier, b.handle(place), tick, s)
	if rejected != metric.Applied {
		return rejected, true
	}
	t.bornLocked(b, place, tick, now)
	if s.TTL != 0 {
		b.page.setTTL(place, s.TTL)
		b.page.expectEnd(place, now)
	}
	t.noteLocked(b, place, max(tick, stamp), now)
	return metric.Applied, true
}

// arrivalLocked returns the tick in which a sample counts. Pending and late samples count in an
// earlier tick, and may move the birth of a new series back to it.
func (t *Table) arrivalLocked(b *block, place uint32, s *metric.Sample, now window.Moment) uint32 {
	then := time.Unix(0, s.Arrived)
	switch {
	case s.Late:
		then = s.Date()
	case s.Arrived == 0:
		return b.tickLocked(place, now)
	}
	tick := now.TickOf(then, t.Clock.Tick)
	if b.page.cells[place].History.Stamp == 0 {
		b.backdateLocked(place, tick, dateOf(now, tick, t.Clock.Tick))
	}
	return tick
}

// noteLocked records a series' value under a tick. It clears the dirty bit first, as the roller
// does.
func (t *Table) noteLocked(b *block, place, tick uint32, now window.Moment) {
	b.page.dirty[place/64].And(^(uint64(1) << (place % 64)))
	b.recorded[place/64].Add(1)
	t.rollSeriesLocked(b, place, tick)
	b.page.cells[place].See(now)
	b.unsaved.Mark(place)
}

// A sample with a timestamp in the past counts in the tick of that moment, even if later ticks are
// recorded already. It takes the history lock, like running totals: clients date only the samples
// that they could not send earlier.

// datedAfter is the age from which a date counts. StatsD's are whole seconds, and a tick is about
// one.
const datedAfter = 2 * time.Second

// dated reports whether a sample counts at its date, not when it came. Gauges never do: timestamps order them.
func (w *Writer) dated(s *metric.Sample) bool {
	if s.Dated == 0 || s.Kind == metric.Gauge {
		return false
	}
	came := w.Now.Wall
	if s.Arrived != 0 {
		came = time.Unix(0, s.Arrived)
	}
	return came.Sub(s.Date()) >= datedAfter
}

// updateDated adds a dated sample to its series. If the series was removed, the sample is late.
func (w *Writer) updateDated(b *block, place uint32, state uint32, s *metric.Sample) metric.Reason {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != state {
		return w.updateNow(b, place, s)
	}
	now := w.table.Clock.Now()
	return w.applyDatedLocked(b, place, now.TickOf(s.Date(), w.table.Clock.Tick), s, now)
}

// applyDatedLocked adds a sample to an earlier tick.
func (w *Writer) applyDatedLocked(b *block, place, tick uint32, s *metric.Sample, now window.Moment) metric.Reason {
	t := w.table
	if b.page.cells[place].History.Stamp != 0 {
		t.noteLocked(b, place, b.tickLocked(place, now), now) // earlier samples count in their own tick
	}
	rejected := kind.Of(s.Kind).ApplyDatedLocked(&w.Applier, b.handle(place), tick, s)
	if rejected == metric.Applied {
		t.bornLocked(b, place, tick, now)
		b.page.cells[place].See(now)
		if s.TTL != 0 {
			b.page.setTTL(place, s.TTL)
			b.page.expectEnd(place, now)
		}
		b.unsaved.Mark(place)
	}
	return rejected
}

// bornLocked moves the birth of a series back to a dated sample, but no further than windows reach.
func (t *Table) bornLocked(b *block, place, tick uint32, now window.Moment) {
	tick = max(tick, now.Tick-min(now.Tick, t.Logs.Horizon))
	b.backdateLocked(place, tick, dateOf(now, tick, t.Clock.Tick))
}

// dateOf is the date of an earlier tick of this process, in Unix seconds.
func dateOf(now window.Moment, tick uint32, length time.Duration) uint32 {
	return uint32(now.Wall.Add(time.Duration(tick)*length - now.At).Unix())
}

// backdateLocked moves the birth of a series back to a tick. An earlier birth is saved again: the
// limits of all replicas compare births, so each of them has to know the same one.
func (b *block) backdateLocked(place, tick, date uint32) {
	if tick >= b.series[place].born {
		return
	}
	b.series[place].born = tick
	b.page.created[place] = min(b.page.created[place], date)
	b.unnamed.Mark(place)
	b.renamed.Store(true)
}

// applyHeld applies a sample that was pending. It counts in the tick of its arrival or of its date, so windows read as
// if it had never been pending. An older value of a gauge never replaces a newer one.
func (w *Writer) applyHeld(to lookup.Ref, s *metric.Sample) metric.Reason {
	t := w.table
	b, place := t.blocks.of(to.Number)
	if w.includes(b, place) {
		return metric.Applied
	}
	b.history.Lock()
	defer b.history.Unlock()
	c := &b.page.cells[place]
	if c.State.Load() != to.State {
		return w.updateNow(b, place, s) // the series was removed: reclaim handles late samples
	}
	now := t.Clock.Now()
	if w.dated(s) {
		return w.applyDatedLocked(b, place, now.TickOf(s.Date(), t.Clock.Tick), s, now)
	}
	tick, stamp := t.arrivalLocked(b, place, s, now), c.History.Stamp
	if s.Op == metric.Assign && (stamp > tick || b.page.dirty.Has(place)) {
		return kind.Check(s)
	}
	// Others of the series may have told of later ticks. A set keeps the tick of each member, which no record under
	// an earlier tick changes.
	if tick < stamp && s.Kind != metric.Gauge || s.Kind == metric.Set {
		return w.applyDatedLocked(b, place, tick, s, now)
	}
	if rejected := w.updateNow(b, place, s); rejected != metric.Applied {
		return rejected
	}
	t.noteLocked(b, place, max(tick, stamp), now)
	return metric.Applied
}
