package aggregate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A table is restored before any writer or reader knows it: the clock, then the blocks, from several goroutines, then
// RestoreDone. A block that it cannot read is an error, and stays empty.

// futureSlack is how far ahead of the wall clock a restored time may be. Beyond that it counts as stale: a clock was set back.
const futureSlack = 5 * time.Minute

// clockSlack is how many ticks a stamp may be ahead of the clock: the two are not saved at one instant.
const clockSlack = 20

// RestoreClock goes on from the clock of an earlier process.
func (t *Table) RestoreClock(blob []byte) error {
	d := decoder{rest: blob}
	if v := d.byte(); d.err == nil && v != formatVersion {
		return fmt.Errorf("table format %d is not known; this version writes %d", v, formatVersion)
	}
	at := time.Duration(d.uvarint())
	d.varint() // the wall clock of then, for people
	seed := d.uint64()
	windows := make([]time.Duration, min(d.uvarint(), maxWindows))
	for i := range windows {
		windows[i] = time.Duration(d.uvarint()) * time.Second
	}
	if d.err != nil || len(d.rest) > 0 || at < 0 || at > longestUp {
		return fmt.Errorf("clock: %w", errDamaged)
	}
	t.setSeed = seed
	if slices.Equal(windows, t.Windows()) {
		t.clock.resume(at)
	}
	return nil
}

// longestUp is the most receiving time that can be: ticks of a tenth of a second fit 32 bits for thirteen years.
const longestUp = 10 * 365 * 24 * time.Hour

// RestoreBlock fills a block with what was saved of it: its names and state as of one moment, and the deltas since, in order.
// Blocks may be restored by several goroutines at once, each by one.
func (t *Table) RestoreBlock(block int, names, state []byte, deltas [][]byte) error {
	if block < 0 || block >= maxBlocks {
		return fmt.Errorf("block %d: want 0 to %d", block, maxBlocks-1)
	}
	t.blocks.mu.Lock()
	t.blocks.reachLocked(uint32(block))
	t.blocks.mu.Unlock()
	r := restorer{t: t, index: uint32(block), b: t.blocks.at[block].Load(), now: t.clock.now()}
	r.windows = t.clock.resumed.Load()
	if err := r.all(names, state, deltas); err != nil {
		for place := range uint32(blockSeries) {
			t.vanish(r.b, place)
		}
		return fmt.Errorf("block %d: %w", block, err)
	}
	return nil
}

// restorer reads what was saved of one block.
type restorer struct {
	t       *Table
	index   uint32
	b       *block
	now     moment
	windows bool // stamps mean what they meant then
	took    bool // the last value had a series
}

func (r *restorer) all(names, state []byte, deltas [][]byte) error {
	for d := (&decoder{rest: names}); d.more(); {
		if r.birth(d); d.err != nil {
			return fmt.Errorf("names: %w", d.err)
		}
	}
	for d := (&decoder{rest: state}); d.more(); {
		if r.sizedValue(d); d.err != nil {
			return fmt.Errorf("state: %w", d.err)
		}
	}
	for _, delta := range deltas {
		if err := r.replay(delta); err != nil {
			return fmt.Errorf("delta: %w", err)
		}
	}
	return nil
}

func (r *restorer) replay(delta []byte) error {
	for d := (&decoder{rest: delta}); len(d.rest) > 0 || d.err != nil; {
		switch d.byte() {
		case recordBirth:
			r.birth(d)
		case recordDeath:
			if place := d.place(); d.err == nil {
				r.t.vanish(r.b, place)
			}
		case recordValue:
			r.sizedValue(d)
		default:
			d.fail()
		}
		if d.err != nil {
			return d.err
		}
	}
	return nil
}

// birth reads a name and makes its series. One that is there already, in the same generation, stays as it is.
func (r *restorer) birth(d *decoder) {
	place, state := d.place(), d.uint32()
	kind := metric.Kind(d.byte())
	born := d.uint32()
	object := metric.Object{Resource: d.string(), Namespace: d.string(), Name: d.string(), UID: d.string()}
	name := d.string()
	labels, ok := metric.UnpackLabels(d.string())
	if !ok || kind.DefaultStat() == metric.NoStat || name == "" || state&live == 0 || state > stateBits {
		d.fail()
	}
	if d.err != nil {
		return
	}
	form := canonicalForm{object: object, name: name, labels: labels.Packed()}
	form.hash = form.sum(r.t.seed)
	c := &r.b.page.cells[place]
	if c.state.Load() == state && form.matches(&r.b.series[place]) {
		return
	}
	r.t.vanish(r.b, place)
	if !r.windows {
		born = r.now.tick
	}
	// The entry is one of its own until settle.go files the series.
	own := &entry{family: &family{key: familyKey{object.Resource, object.Namespace, name}}, object: object, kind: kind}
	r.t.fill(r.b, place, newcomer{hash: form.hash, entry: own, labels: labels, born: born, seen: r.now.unix()})
	c.state.Store(state)
}

// sizedValue reads a value behind its length.
func (r *restorer) sizedValue(d *decoder) {
	one := &decoder{rest: d.bytes(d.uvarint())}
	if d.err != nil {
		return
	}
	if r.value(one); one.err != nil || len(one.rest) > 0 && r.took {
		d.fail()
	}
}

// value reads a value and its notes. A series that is not there was refused at its birth, or came and went between
// the parts of a checkpoint.
func (r *restorer) value(d *decoder) {
	place, state := d.place(), d.uint32()
	seen, ttl, stamp := d.uint32(), d.uint32(), d.uint32()
	c, s := &r.b.page.cells[place], &r.b.series[place]
	if r.took = d.err == nil && state&live != 0 && c.state.Load() == state; !r.took {
		return
	}
	if r.ahead(stamp) {
		d.fail()
		return
	}
	c.seen.Store(seen)
	s.ttl.Store(ttl)
	switch s.entry.kind {
	case metric.Counter:
		r.past(d, &c.past, stamp)
		c.value.Store(c.past.rolled)
		if d.byte() == 1 {
			body := r.b.makeBody(place, newFraction)
			r.past(d, &body.fraction.past, d.uint32())
			body.fraction.units.Store(int64(body.fraction.past.rolled))
		}
	case metric.Gauge:
		r.past(d, &c.past, stamp)
		r.gauge(d, place, d.uint32())
	case metric.Timer:
		r.b.body(place).timer.restore(d, r)
		c.past.stamp = stamp
	case metric.Set:
		r.b.body(place).set.restore(d, r)
		c.past.stamp = stamp
	}
}

// ahead reports whether a tick has not come yet: nobody noted anything under it.
func (r *restorer) ahead(tick uint32) bool { return r.windows && tick > r.now.tick+clockSlack }

func (r *restorer) gauge(d *decoder, place, at uint32) {
	c := &r.b.page.cells[place]
	bits := c.past.rolled
	if c.past.stamp == 0 {
		bits = gaugeUnset
	} else if v := math.Float64frombits(bits); math.IsNaN(v) || math.IsInf(v, 0) {
		d.fail()
		return
	}
	if at == 0 {
		c.value.Store(bits)
		return
	}
	body := r.b.makeBody(place, func() *body { return &body{stamped: new(stamped)} })
	*body.stamped = stamped{}
	body.stamped.begin(bits, at)
	c.value.Store(gaugeMoved)
}

// past reads what appendPastLocked appended.
func (r *restorer) past(d *decoder, p *past, stamp uint32) {
	rolled, ringed := d.uvarint(), d.byte()
	if !r.windows && stamp != 0 {
		stamp = beforeAll
	}
	rings := r.t.rings
	if ringed == 0 {
		if stamp != 0 {
			p.note(rings, stamp, rolled)
		}
		return
	}
	if r.windows && p.ring == 0 {
		p.ring = rings.take()
		if p.stamp != 0 {
			rings.note(p.ring, p.stamp, p.rolled)
		}
	}
	p.rolled, p.stamp = rolled, stamp
	for i := range r.t.spans {
		r.notes(d, p, &r.t.spans[i])
	}
}

func (r *restorer) notes(d *decoder, p *past, sp *span) {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		age, behind := d.uint32(), d.varint()
		newest := sp.unit(p.stamp)
		if d.err != nil || !r.windows || age >= newest {
			continue
		}
		stamps, values := r.t.rings.notes(p.ring)
		end := sp.first + sp.slots
		noteSpan(stamps[sp.first:end], values[sp.first:end], newest-age, p.rolled-uint64(behind))
	}
}

func (t *timer) restore(d *decoder, r *restorer) {
	for i := range r.t.spans {
		for n := d.uvarint(); n > 0 && d.err == nil; n-- {
			slot := timerSlot{unit: d.uint32(), sum: d.float(), min: d.float(), max: d.float(), bins: d.string()}
			unsound := math.IsNaN(slot.sum) || math.IsNaN(slot.min) || math.IsNaN(slot.max)
			if unsound || !eachBin(slot.bins, func(int, uint64) {}) || r.ahead((slot.unit-1)*r.t.spans[i].stride) {
				d.fail()
			}
			if d.err == nil && r.windows {
				*t.slotLocked(i, &r.t.spans[i], slot.unit) = slot
			}
		}
	}
}

func (s *set) restore(d *decoder, r *restorer) {
	n := d.uint32()
	if uint64(n)*9 > uint64(len(d.rest)) {
		d.fail()
		return
	}
	table := s.reserve(int32(n))
	for ; n > 0 && d.err == nil; n-- {
		hash, tick := d.uint64(), d.uint32()
		if d.err == nil && r.windows {
			table.see(max(hash, 1), min(tick, r.now.tick))
		}
	}
	if d.byte() == 0 {
		return
	}
	s.many.CompareAndSwap(nil, new(liveRegisters))
	for i := range r.t.spans {
		for n := d.uvarint(); n > 0 && d.err == nil; n-- {
			s.restoreSlot(d, r, i)
		}
	}
}

// reserve makes room for n more members. Nobody else adds while restoring.
func (s *set) reserve(n int32) *members {
	old := s.exact.Load()
	if old.used.Load()+n <= old.room() {
		return old
	}
	slots := int32(len(old.hashes))
	for slots*4/5 < old.used.Load()+n {
		slots *= 2
	}
	table := newMembers(int(slots), nil)
	old.each(func(hash uint64, tick uint32) { table.see(hash, tick) })
	s.exact.Store(table)
	return table
}

func (s *set) restoreSlot(d *decoder, r *restorer, index int) {
	unit := d.uint32()
	list := d.bytes(d.uvarint())
	if d.err != nil || !r.windows {
		return
	}
	if r.ahead((unit - 1) * r.t.spans[index].stride) {
		d.fail()
		return
	}
	if !readRegisters(list, s.slotLocked(index, &r.t.spans[index], unit).registers) {
		d.fail()
	}
}
