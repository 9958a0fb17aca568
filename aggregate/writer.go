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
		rejected, there := w.tryPreAggregated(to, s)
		if there {
			return rejected
		}
		if to, rejected = w.seek(s); rejected != metric.Applied {
			return rejected
		}
	}
}

// tryPreAggregated applies the sample and records it at once. It returns false if the series was
// removed.
func (w *Writer) tryPreAggregated(to lookup.Ref, s *metric.Sample) (rejected metric.Reason, there bool) {
	t := w.table
	b, place := t.blocks.of(to.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() != to.State {
		return metric.Applied, false
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
