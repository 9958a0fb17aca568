package aggregate

import "github.com/sluice-metrics/sluice/metric"

const (
	// maxAliases is how many spellings of one series are remembered. Ten tags have 3.6 million orders, and clients
	// that iterate over a map send them all: later ones take the way by the canonical form, and cost no memory. Each
	// sender's line is a spelling of its own.
	maxAliases = 8
	// maxRefusals bounds the aliases that lead to a refusal; refused lines beyond that are decided anew each time.
	maxRefusals = 1 << 16
)

// applyDescribed takes a sample whose bytes are not known, or that has none: it is described, found by its
// canonical form or created, and its bytes, if there are any, become an alias.
func (w *Writer) applyDescribed(s *metric.Sample, key *aliasKey) metric.Reason {
	if s.Op == metric.MarkStale {
		return w.vanish(s)
	}
	if refused := check(s); refused != metric.Applied {
		return refused // of this value, not of the line: nothing to remember
	}
	whose := w.decision(s)
	to, refused := w.seriesOf(whose, s)
	if refused != metric.Applied {
		if key != nil && refused != metric.Pending {
			w.table.rememberRefusal(key, refused, whose.turn)
		}
		return refused
	}
	b, place := w.table.blocks.of(to.number)
	switch {
	case s.Op.PreAggregated():
		return w.applyPushed(to, s)
	case s.Arrived != 0:
		return w.applyHeld(to, s)
	}
	if key != nil && b.series[place].aliases.Load() < maxAliases && w.table.aliasesMayGrow() {
		w.table.rememberSeries(key, to, &b.series[place])
	}
	return w.update(b, place, to.state, s)
}

// aliasesMayGrow leaves half of the memory to series: a line without an alias still finds its own.
func (t *Table) aliasesMayGrow() bool { return t.aliases.bytes.Load() < t.config.MaxBytes/2 }

func (t *Table) rememberSeries(key *aliasKey, to ref, s *series) {
	before, ok := t.aliases.lead(key, to.target())
	if !ok || before == to.target() {
		return
	}
	s.aliases.Add(1)
	if before&refusalBit != 0 {
		t.refusals.Add(-1)
	}
}

func (t *Table) rememberRefusal(key *aliasKey, r metric.Reason, turn uint32) {
	if t.refusals.Load() >= maxRefusals || !t.aliasesMayGrow() {
		return
	}
	before, ok := t.aliases.lead(key, refusalTarget(r, turn))
	if ok && before&refusalBit == 0 {
		t.refusals.Add(1)
	}
}

// seek finds or creates the series of a sample.
func (w *Writer) seek(s *metric.Sample) (ref, metric.Reason) { return w.seriesOf(w.decision(s), s) }

// seriesOf finds or creates the series that a sample was decided to belong to.
func (w *Writer) seriesOf(whose *decision, s *metric.Sample) (ref, metric.Reason) {
	if whose.refused != metric.Applied {
		return ref{}, whose.refused
	}
	if to, refused, there := w.table.filed(&whose.form, s.Kind); there {
		return to, refused
	}
	return w.table.create(&whose.form, s, w.now)
}

// decision says which series a sample belongs to, in memory of its own.
type decision struct {
	form    canonicalForm
	refused metric.Reason
	turn    uint32 // as of before it was made: what changed since makes it outdated

	described metric.Description
	canonical []byte
}

// decision decides about a sample, if that was not foretold. It holds until the next sample.
func (w *Writer) decision(s *metric.Sample) *decision {
	for i := range w.foretold[:w.ahead] {
		if f := &w.foretold[i]; f.sample == s {
			return &f.decision
		}
	}
	w.table.decide(s, &w.decided)
	return &w.decided
}

func (t *Table) decide(s *metric.Sample, d *decision) {
	d.turn = t.turn.Load()
	d.form, d.refused = t.identify(s, d)
}

// identify says which series a sample belongs to, in memory of the decision.
func (t *Table) identify(s *metric.Sample, whose *decision) (canonicalForm, metric.Reason) {
	name := metric.Borrow(s.Name)
	if refused := metric.CheckName(name); refused != metric.Applied {
		return canonicalForm{}, refused
	}
	d := &whose.described
	d.Object, d.Labels, d.ObjectLifetime, d.Retainable = metric.Object{}, d.Labels[:0], false, false
	if refused := t.describe(s, d); refused != metric.Applied {
		return canonicalForm{}, refused
	}
	if refused := checkDescription(d); refused != metric.Applied {
		return canonicalForm{}, refused
	}
	whose.canonical = metric.AppendLabels(whose.canonical[:0], d.Labels)
	form := canonicalForm{object: d.Object, name: name, labels: metric.Borrow(whose.canonical), bound: d.ObjectLifetime, lasting: d.Retainable}
	form.sum(&t.index.hash)
	return form, metric.Applied
}

// checkDescription says whether an answer can hold the labels and the object. It is the last gate of every protocol.
func checkDescription(d *metric.Description) metric.Reason {
	for _, l := range d.Labels {
		if refused := metric.CheckLabel(l); refused != metric.Applied {
			return refused
		}
	}
	return metric.CheckLabel(metric.Label{Key: d.Object.Namespace, Value: d.Object.Name})
}

// canonicalForm is a series' identity, the same for every spelling. Its strings may be borrowed.
type canonicalForm struct {
	object metric.Object
	name   string
	labels string // packed
	hash   uint64
	family uint64 // the hash of resource, namespace and name
	named  uint64 // that of these and the object's name
	// No part of the identity: whether it is bound to the life of its object, and whether the object's strings last.
	bound, lasting bool
}

// sum sets the hashes.
func (f *canonicalForm) sum(h *lineHash) {
	f.family = f.familyKey().sum(h)
	f.named = h.string(f.family, f.object.Name)
	f.hash = h.string(h.string(f.named, f.object.UID), f.labels)
}

func (f *canonicalForm) familyKey() familyKey {
	return familyKey{f.object.Resource, f.object.Namespace, f.name}
}

func (f *canonicalForm) matches(s *series) bool {
	e := s.entry
	return e.name == f.object.Name && e.uid == f.object.UID && e.family.key == f.familyKey() && s.packed() == f.labels
}

// formOf is a series' identity.
func (t *Table) formOf(s *series) canonicalForm {
	form := canonicalForm{object: s.entry.object(), name: s.entry.family.key.name, labels: s.packed(), lasting: true}
	form.sum(&t.index.hash)
	return form
}

// filed finds a live series, and says whether samples of a kind are for it. Who may call locate may call it.
func (t *Table) filed(f *canonicalForm, kind metric.Kind) (to ref, refused metric.Reason, there bool) {
	to, s, there := t.locate(f)
	if there && s.entry.kind != kind {
		return ref{}, metric.KindConflict, true
	}
	return to, metric.Applied, there
}

// locate finds a live series of whatever kind. A number in the slots stays what it is until every writer has passed, so
// only writers may call it, or whoever holds the shard's lock.
func (t *Table) locate(f *canonicalForm) (to ref, s *series, there bool) {
	p := t.canon.probe(f.hash)
	for {
		held := p.next()
		if held == 0 {
			return ref{}, nil, false
		}
		number := held - firstNumber
		b, place := t.blocks.of(number)
		state, s := b.page.cells[place].state.Load(), &b.series[place]
		if state&live != 0 && f.matches(s) {
			return ref{number, state}, s, true
		}
	}
}

// create makes a series, unless another writer was quicker or it may not be.
func (t *Table) create(f *canonicalForm, s *metric.Sample, now moment) (ref, metric.Reason) {
	shard := t.canon.shard(f.hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if to, refused, there := t.filed(f, s.Kind); there {
		return to, refused
	}
	if !t.admit() {
		return ref{}, metric.OverLimit
	}
	e, lock := t.index.enter(f, s.Kind)
	defer lock.mu.Unlock()
	if e.kind != s.Kind {
		return ref{}, metric.KindConflict
	}
	if refused := t.admission.Admit(lock.objectOf(e), e.family.key.name, now.tick); refused != metric.Applied {
		e.tidyLocked()
		return ref{}, refused
	}
	number, ok := t.blocks.take()
	if !ok {
		t.admission.Leave(lock.objectOf(e), e.family.key.name)
		e.tidyLocked()
		return ref{}, metric.OverLimit
	}
	b, place := t.blocks.of(number)
	t.fill(b, place, newcomer{entry: e, labels: lock.shared(&t.index.hash, f.labels), born: now.tick, seen: now.stamp()})
	b.page.setTTL(place, s.TTL)
	if s.TTL == 0 && f.bound {
		b.page.setTTL(place, metric.Forever)
	}
	shard.addLocked(f.hash, number+firstNumber)
	to := t.publish(b, place, number)
	b.page.expectEnd(place, now)
	e.addLocked(to)
	t.observer.SeriesCreated(lock.objectOf(e), e.family.key.name, e.kind, b.series[place].labels())
	return to, metric.Applied
}

// admit reports whether one more series may be. If not, the sweep looks for room.
func (t *Table) admit() bool {
	if t.live.Load() >= int64(t.config.MaxSeries) {
		t.wanted.Add(1)
		return false
	}
	return t.mayGrow()
}

// mayGrow reports whether there is memory left for what has no fixed size.
func (t *Table) mayGrow() bool {
	if t.bodyBytes.Load()+t.logBytes.Load()+t.nameBytes.Load()+t.aliases.bytes.Load() < t.config.MaxBytes {
		return true
	}
	t.starved.Store(true)
	return false
}

// budget is what a body asks before it grows.
type budget struct {
	table *Table
	body  *body
}

// take reports whether the body may grow by some bytes, and enters them.
func (b budget) take(bytes int64) bool {
	if !b.table.mayGrow() {
		return false
	}
	b.enter(bytes)
	return true
}

func (b budget) enter(bytes int64) {
	b.body.bytes.Add(bytes)
	b.table.bodyBytes.Add(bytes)
}

// nameBytes is the memory of a series' names. Those that series of an entry share are counted for each: a bound, not a scale.
func (s *series) nameBytes() int64 {
	e, f := s.entry, &s.entry.family.key
	return int64(len(f.resource) + len(f.namespace) + len(e.name) + len(e.uid) + len(f.name) + int(s.length))
}

type newcomer struct {
	entry  *entry
	labels string // packed
	born   uint32
	seen   uint32
}

// fill writes a new series into a free place.
func (t *Table) fill(b *block, place uint32, n newcomer) {
	s, c := &b.series[place], &b.page.cells[place]
	s.entry, s.born = n.entry, n.born
	s.setLabels(n.labels)
	b.page.kinds[place] = n.entry.kind
	b.page.ttls[place].Store(0)
	s.aliases.Store(0)
	c.past = past{}
	c.seen.Store(n.seen)
	c.value.Store(0)
	switch n.entry.kind {
	case metric.Gauge:
		c.value.Store(gaugeUnset)
	case metric.Timer:
		body := b.makeBody(place, func() *body { return &body{timer: new(timer)} })
		t.weigh(body, body.timer.weight(nil))
	case metric.Set:
		body := b.makeBody(place, func() *body { return &body{set: newSet(t.spans)} })
		t.weigh(body, body.set.bytesLocked())
	}
}

// publish makes a filled place live. The marks come after, as with values: the store unmarks first and looks then, so a
// birth that it does not see is marked again.
func (t *Table) publish(b *block, place, number uint32) ref {
	c := &b.page.cells[place]
	state := (c.state.Load()>>1+1)<<1&stateBits | live
	t.live.Add(1)
	t.nameBytes.Add(b.series[place].nameBytes())
	c.state.Store(state)
	b.unnamed.mark(place)
	b.renamed.Store(true)
	return ref{number, state}
}
