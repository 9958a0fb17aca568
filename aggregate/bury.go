package aggregate

import "github.com/sluice-metrics/sluice/metric"

// finish takes the second step for all that every writer has passed.
func (t *Table) finish(pace *pace) {
	e := &t.evictions
	passed := t.epochs.Quiesced()
	for len(e.stale) > 0 && e.stale[0].epoch <= passed {
		t.aliases.recycle(e.stale[0].shard, e.stale[0].numbers)
		e.stale = e.stale[1:]
	}
	w := t.NewWriter()
	defer w.Close()
	for t.buryNext(passed, w) {
		pace.step()
	}
}

// buryNext takes the second step for the series that has waited longest, if it is due.
func (t *Table) buryNext(passed uint64, w *Writer) bool {
	e := &t.evictions
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.limbo) == 0 || e.limbo[0].epoch > passed {
		return false
	}
	t.buryLocked(e.limbo[0], w)
	e.limbo = e.limbo[1:]
	if len(e.limbo) == 0 {
		e.limbo = nil
		t.turn.Add(1) // what was refused for want of places or memory may come in
	}
	return true
}

// buryLocked is the second step for one series: the place is free afterwards.
func (t *Table) buryLocked(d departed, w *Writer) {
	b, place := t.blocks.of(d.number)
	s := &b.series[place]
	late := d.cause.mayHaveHeir() && b.page.dirty.has(place)
	if late {
		late = t.succeed(d, b, place, w)
	}
	t.retire(d, b, place, late)

	hash := t.formOf(s).hash
	shard := t.canon.shard(hash)
	shard.mu.Lock()
	shard.removeLocked(hash, d.number+firstNumber)
	shard.mu.Unlock()

	b.history.Lock()
	t.nameBytes.Add(-s.nameBytes())
	t.emptyPlaceLocked(b, place)
	b.history.Unlock()
	t.blocks.give(d.number)
}

// emptyPlaceLocked gives back all that a series held. Nobody finds it any more.
func (t *Table) emptyPlaceLocked(b *block, place uint32) {
	s, c := &b.series[place], &b.page.cells[place]
	bit := uint64(1) << (place % 64)
	b.page.dirty[place/64].And(^bit)
	b.unsaved[place/64].And(^bit)
	t.forgetNotes(c, b.body(place))
	if body := b.body(place); body != nil {
		t.weigh(body, 0)
		if body.timer != nil {
			t.timers.drop(c)
		}
		b.bodies.Load()[place].Store(nil)
	}
	s.entry, s.first, s.length = nil, nil, 0
}

// retire adds to retired what a counter held: all of it, or what it held when it turned dead if the rest moved on.
func (t *Table) retire(d departed, b *block, place uint32, late bool) {
	if b.page.kinds[place] != metric.Counter {
		return
	}
	whole, units := counterSum(b, place)
	if late {
		whole, units = d.whole, d.units
	}
	t.sumsMu.Lock()
	defer t.sumsMu.Unlock()
	t.retired.add(whole, units)
}

// succeed hands what came after a series had turned dead to a series of the same identity, made where there is none.
// False: there could be none.
func (t *Table) succeed(d departed, b *block, place uint32, w *Writer) bool {
	s := &b.series[place]
	e := s.entry
	form := t.formOf(s)
	to, refused := t.create(&form, &metric.Sample{Kind: e.kind}, w.now)
	if refused != metric.Applied {
		return false
	}
	heir, at := t.blocks.of(to.number)
	switch e.kind {
	case metric.Counter:
		whole, units := counterSum(b, place)
		if !heir.page.cells[at].add(whole - d.whole) {
			return false // it is full: what came late retires with the rest
		}
		if units != d.units {
			heir.makeBody(at, newFraction).fraction.units.Add(int64(units - d.units))
		}
	case metric.Gauge:
		if v, set := gaugeBits(b, place); set {
			heir.page.cells[at].value.CompareAndSwap(gaugeUnset, v)
		}
	case metric.Timer:
		heir.history.Lock() // so that nobody turns its halves
		heir.body(at).timer.takeOverLocked(&t.timers, &heir.page.cells[at], b.body(place).timer, &b.page.cells[place], budget{t, heir.body(at)})
		heir.history.Unlock()
	case metric.Set:
		b.body(place).set.exact.Load().each(func(hash uint64, tick uint32) {
			if tick >= d.ended {
				heir.body(at).set.insert(hash, tick, budget{t, heir.body(at)})
			}
		})
	}
	heir.page.ttls[at].CompareAndSwap(0, b.page.ttls[place].Load())
	heir.page.dirty.mark(at)
	heir.page.expectEnd(at, w.now)
	return true
}
