package aggregate

import (
	"math"
	"runtime"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Writer is one goroutine's way into the table. Its scratch space makes a sample cost no allocation.
type Writer struct {
	table *Table
	slot  *memory.WriterSlot
	now   moment // as of the last batch boundary

	// counted is what this writer added to counters; shown is the same as of the last batch boundary, for Balance.
	counted sum
	shown   struct {
		whole    atomic.Int64
		fraction atomic.Uint64
	}

	lines    []metric.Line // those that were recalled last
	recalled []recalled
	far      bool // what lines look at is asked for ahead
	timers   bool // some of them are timers
	repeated metric.Sample

	decided  decision // about the sample in hand
	foretold [foretoldMost]foretold
	ahead    int // how many of them there are
	digest   xxhash.Digest
}

// NewWriter makes a writer, ready for Apply. Close gives it up.
func (t *Table) NewWriter() *Writer {
	w := &Writer{table: t, slot: t.epochs.Register(), now: t.clock.now()}
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	t.writers = append(t.writers, w)
	return w
}

// Close gives the writer up.
func (w *Writer) Close() {
	t := w.table
	t.epochs.Unregister(w.slot)
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	for i, one := range t.writers {
		if one == w {
			t.writers = append(t.writers[:i], t.writers[i+1:]...)
			t.closed.add(w.counted.whole, w.counted.fraction)
			return
		}
	}
}

// Quiesce marks a batch boundary: nothing that was looked up before is used any more.
func (w *Writer) Quiesce() {
	w.ahead = 0
	w.show()
	w.slot.Quiesce(&w.table.epochs)
	w.now = w.table.clock.now()
}

// Offline is a Quiesce before a wait of any length.
func (w *Writer) Offline() {
	w.ahead = 0
	w.show()
	w.slot.Offline()
}

// Online ends a Offline.
func (w *Writer) Online() {
	w.slot.Online(&w.table.epochs)
	w.now = w.table.clock.now()
}

func (w *Writer) show() {
	w.shown.whole.Store(w.counted.whole)
	w.shown.fraction.Store(w.counted.fraction)
}

// Apply takes one sample, or says why not. What it took, the next read sees.
func (w *Writer) Apply(s *metric.Sample) metric.Reason {
	if s.Object != nil || len(s.Fields) > 0 || s.Arrived != 0 || s.Op.PreAggregated() {
		return w.applyDescribed(s, nil)
	}
	t := w.table
	key := t.aliases.keyOf(s)
	if r := t.aliases.find(&key); r != nil {
		target := r.target.Load()
		if target&refusalBit == 0 {
			to := targetRef(target)
			b, place := t.blocks.of(to.number)
			if b.page.cells[place].state.Load() == to.state {
				return w.update(b, place, to.state, s)
			}
		} else if reason, turn := targetRefusal(target); turn == t.turn.Load() {
			return reason
		}
	}
	return w.applyDescribed(s, &key)
}

// update adds a sample to its series: first the value, then the mark. The roller unmarks first and reads then,
// so whatever it did not read is marked again.
func (w *Writer) update(b *block, place, state uint32, s *metric.Sample) metric.Reason {
	if w.dated(s) {
		return w.updateDated(b, place, state, s)
	}
	return w.updateNow(b, place, s)
}

func (w *Writer) updateNow(b *block, place uint32, s *metric.Sample) metric.Reason {
	refused := metric.Applied
	switch s.Kind {
	case metric.Counter:
		refused = w.count(b, place, s)
	case metric.Gauge:
		refused = w.gauge(b, place, s)
	case metric.Timer:
		refused = w.observe(b, place, s)
	case metric.Set:
		w.digest.ResetWithSeed(w.table.setSeed)
		w.digest.Write(s.Member)
		body := b.body(place)
		if !body.set.insert(w.digest.Sum64(), w.now.tick, budget{w.table, body}) {
			refused = metric.OverLimit
		}
	}
	if refused != metric.Applied {
		return refused
	}
	if s.TTL != 0 {
		b.page.setTTL(place, s.TTL)
		b.page.expectEnd(place, w.now)
	}
	b.page.dirty.mark(place)
	return metric.Applied
}

// check refuses what update would refuse, before a series is made for it.
func check(s *metric.Sample) metric.Reason {
	if s.Op.PreAggregated() {
		return checkPushed(s)
	}
	switch s.Kind {
	case metric.Counter:
		if _, _, ok := quantise(s); !ok {
			return metric.BadValue
		}
	case metric.Gauge, metric.Timer:
		if v := s.Float(); math.IsNaN(v) || math.IsInf(v, 0) {
			return metric.BadValue
		}
		if weight := s.Weight(); s.Kind == metric.Timer && !(weight >= 1 && weight <= maxWeight) {
			return metric.BadRate
		}
	case metric.Set:
	default:
		return metric.Malformed
	}
	return metric.Applied
}

func (w *Writer) count(b *block, place uint32, s *metric.Sample) metric.Reason {
	whole, units, ok := quantise(s)
	if !ok {
		return metric.BadValue
	}
	if !b.page.cells[place].add(whole) {
		return metric.BadValue
	}
	if units != 0 {
		b.makeBody(place, newFraction).fraction.units.Add(int64(units))
	}
	w.counted.add(whole, uint64(units))
	return metric.Applied
}

func (w *Writer) gauge(b *block, place uint32, s *metric.Sample) metric.Reason {
	if refused := check(s); refused != metric.Applied {
		return refused
	}
	n := s.Number()
	v, plain := n.AsFloat()
	c, now := &b.page.cells[place], uint32(w.now.wall.Unix())
	switch shift := s.Op == metric.Shift; {
	case s.Timestamp > 0 && shift:
		w.stampedGauge(b, place).shift(n, uint32(min(s.Timestamp, int64(now))))
	case s.Timestamp > 0:
		w.stampedGauge(b, place).assign(n, uint32(min(s.Timestamp, int64(now))))
	case shift && !c.shift(n):
		w.stampedGauge(b, place).shift(n, now)
	case !shift && !(plain && c.assign(v)):
		w.stampedGauge(b, place).assignNow(n, now)
	}
	return metric.Applied
}

// stampedGauge moves a gauge's value into a body that holds its timestamp too, once in the series' life. The writer
// that makes the body moves the value; another that comes in that instant yields to it.
func (w *Writer) stampedGauge(b *block, place uint32) *stamped {
	c := &b.page.cells[place]
	for c.value.Load() != gaugeMoved {
		mine := &body{stamped: new(stamped)}
		if b.makeBody(place, func() *body { return mine }) != mine {
			runtime.Gosched()
			continue
		}
		seen := uint32(arrived(b, place, w.now).Unix())
		for {
			bits, at := c.value.Load(), seen
			if bits == gaugeUnset {
				at = 0 // any value is newer than none
			}
			mine.stamped.begin(bits, at)
			if c.value.CompareAndSwap(bits, gaugeMoved) {
				return mine.stamped
			}
		}
	}
	return b.body(place).stamped
}

func (w *Writer) observe(b *block, place uint32, s *metric.Sample) metric.Reason {
	if refused := check(s); refused != metric.Applied {
		return refused
	}
	body := b.body(place)
	room := budget{w.table, body}
	c := &b.page.cells[place]
	live := w.table.timers.make(c, room)
	w.slot.Enter()
	defer w.slot.Exit()
	if live == nil || !body.timer.observe(live, uint32(c.value.Load()&hotHalf), s.Float(), s.Weight(), room) {
		return metric.OverLimit
	}
	return metric.Applied
}
