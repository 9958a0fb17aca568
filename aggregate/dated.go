package aggregate

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A sample that its client dates into the past counts in the tick of that moment, whatever was noted since. It takes the
// history lock, as pushes do: clients date what they could not send before, not every request.

// datedAfter is how long ago a sample must say it was to count then. Timestamps are whole seconds, and a tick is about one.
const datedAfter = 2 * time.Second

// dated reports whether a sample counts at an earlier moment than now. Gauges do not: they are ordered by their timestamps.
func (w *Writer) dated(s *metric.Sample) bool {
	return s.Timestamp != 0 && s.Kind != metric.Gauge && w.now.Wall.Sub(time.Unix(s.Timestamp, 0)) >= datedAfter
}

// updateDated adds a dated sample to its series, which may be about to go: then it comes late as any other.
func (w *Writer) updateDated(b *block, place uint32, state uint32, s *metric.Sample) metric.Reason {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].state.Load() != state {
		return w.updateNow(b, place, s)
	}
	t, now := w.table, w.table.clock.Now()
	tick := now.TickOf(time.Unix(s.Timestamp, 0), t.clock.Tick)
	if b.page.cells[place].history.Stamp != 0 {
		t.noteLocked(b, place, b.tickLocked(place, now), now) // what came until now, under its own tick
	}
	refused := w.enterLocked(b, place, tick, s)
	if refused == metric.Applied {
		b.bornLocked(t.logs, place, tick, now)
		b.page.cells[place].see(now)
		if s.TTL != 0 {
			b.page.setTTL(place, s.TTL)
			b.page.expectEnd(place, now)
		}
		b.unsaved.mark(place)
	}
	return refused
}

// enterLocked adds a sample and its note.
func (w *Writer) enterLocked(b *block, place, tick uint32, s *metric.Sample) metric.Reason {
	t, body := w.table, b.body(place)
	past := &b.page.cells[place].history
	switch s.Kind {
	case metric.Counter:
		whole, units, ok := quantise(s)
		if !ok {
			return metric.BadValue
		}
		refused := w.count(b, place, s)
		if refused == metric.Applied {
			b.shiftLocked(t.logs, place, tick, whole, int64(units))
		}
		return refused
	case metric.Timer:
		if refused := check(s); refused != metric.Applied {
			return refused
		}
		d := distributions.Get().(*distribution)
		defer distributions.Put(d)
		d.reset()
		weight := uint64(math.RoundToEven(s.Weight() * weightUnits))
		d.add(binOf(s.Float()), weight)
		d.extend(s.Float()*s.Weight(), s.Float(), s.Float())
		body.timer.enterLocked(t.spans, tick, d)
		past.ShiftWeight(t.logs, tick, float64(weight)/weightUnits, b.series[place].born)
		body.rewritten = true
		t.weigh(body, body.timer.weight(t.timers.of(&b.page.cells[place])))
	case metric.Set:
		body.rewritten = true
		w.digest.ResetWithSeed(t.setSeed)
		w.digest.Write(s.Member)
		hash := w.digest.Sum64()
		if body.set.many.Load() == nil {
			if !body.set.insert(hash, tick, budget{t, body}) {
				return metric.OverLimit
			}
			break
		}
		for i := range t.spans {
			if sp := &t.spans[i]; sp.Keeps(tick, w.now.Tick) {
				body.set.slotLocked(i, sp, sp.Unit(tick)).registers.insert(hash)
			}
		}
	}
	past.Stamp = max(past.Stamp, tick)
	return metric.Applied
}

// bornLocked moves the birth of a series back to a sample that its client dates before it, as far as windows reach.
func (b *block) bornLocked(n *window.Logs, place, tick uint32, now window.Moment) {
	s := &b.series[place]
	s.born = min(s.born, max(tick, now.Tick-min(now.Tick, n.Horizon)))
}

// shiftLocked notes that a counter grew in an earlier tick than the newest note's.
func (b *block) shiftLocked(n *window.Logs, place, tick uint32, whole, units int64) {
	born := b.series[place].born
	b.page.cells[place].history.Shift(n, window.WholeCoding, tick, uint64(whole), born, window.AddWhole)
	if body := b.body(place); body != nil && body.fraction != nil && (units != 0 || body.fraction.history.Stamp != 0) {
		body.fraction.history.Shift(n, window.WholeCoding, tick, uint64(units), born, window.AddWhole)
	}
}

// enterLocked adds what came in an earlier tick to the records of its units. Units that are not kept any more are left out.
func (t *timer) enterLocked(spans []window.Span, tick uint32, d *distribution) {
	fine := spans[0].Unit(tick)
	if t.units == nil || fine >= t.units[0].newest {
		t.noteLocked(spans, tick, d)
		return
	}
	s, most := &t.units[0], spans[0].Kept()
	if int(s.count) == most && s.oldest() > t.folded && !s.has(fine) {
		t.foldLocked(spans) // the shortest span is about to lose its oldest record
	}
	s.enterAt(fine, d, most)
	if fine > t.folded {
		return // foldLocked takes it along
	}
	for i := 1; i < len(spans); i++ {
		t.units[i].enterAt(spans[i].Unit(tick), d, spans[i].Kept())
	}
}

// has reports whether there is a record of a unit.
func (s *timerSlots) has(unit uint32) (found bool) {
	s.each(unit, func(rec timerRecord) { found = found || rec.unit == unit })
	return found
}

// enterAt adds a distribution to the record of a unit.
func (s *timerSlots) enterAt(unit uint32, d *distribution, most int) {
	if int(s.count) == most && unit < s.oldest() {
		return
	}
	sum := distributions.Get().(*distribution)
	defer distributions.Put(sum)
	sum.reset()
	s.each(unit, func(rec timerRecord) {
		if rec.unit == unit {
			sum.merge(rec)
		}
	})
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			sum.add(bin, w)
		}
	}
	sum.extend(d.sum, d.min, d.max)
	s.enter(unit, sum.record(unit), most)
}
