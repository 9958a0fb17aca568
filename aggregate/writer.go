package aggregate

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
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
	for i, one := range t.writers {
		if one == w {
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
		if target&lookup.RefusalBit == 0 {
			to := lookup.TargetRef(target)
			b, place := t.blocks.of(to.Number)
			if b.page.cells[place].State.Load() == to.State {
				return w.update(b, place, to.State, s)
			}
		} else if reason, epoch := lookup.TargetRefusal(target); epoch == t.retryEpoch.Load() {
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
	if refused := w.Applier.Apply(b.handle(place), s); refused != metric.Applied {
		return refused
	}
	if s.TTL != 0 {
		b.page.setTTL(place, s.TTL)
		b.page.expectEnd(place, w.Now)
	}
	b.page.dirty.Mark(place)
	return metric.Applied
}
