package aggregate

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// maxAliases bounds the remembered spellings of one series. Ten tags have 3.6 million orders,
	// and clients that iterate over a map send them all. Further spellings take the slow path and
	// no memory. The same line of two senders counts as two spellings.
	maxAliases = 8
	// maxRejections bounds the aliases of rejected lines. Further rejections are decided anew each
	// time.
	maxRejections = 1 << 16
)

// applyDescribed is the slow path, for samples without an alias. It describes the sample, finds or
// creates the series by identity, and remembers the bytes, if any, as an alias. A sample with
// labels (Fields) may have a line as well: its labels as on the wire.
func (w *Writer) applyDescribed(s *metric.Sample, key *lookup.Key) metric.Reason {
	if s.Op == metric.MarkStale {
		return w.markStale(s)
	}
	if rejected := kind.Check(s); rejected != metric.Applied {
		return rejected // remembers no alias: the rejection depends on the value, not on the line
	}
	decided := w.decision(s)
	to, rejected := w.seriesOf(decided, s)
	if rejected != metric.Applied {
		if key != nil && rejected != metric.Pending {
			w.table.rememberRejection(key, rejected, decided.retryEpoch)
		}
		return rejected
	}
	if key == nil && s.Line != nil && s.Arrived == 0 {
		k := w.table.aliases.KeyOf(s)
		key = &k
	}
	b, place := w.table.blocks.of(to.Number)
	if key != nil && b.series[place].aliases.Load() < maxAliases && w.table.aliasesMayGrow() {
		w.table.rememberSeries(key, to, &b.series[place])
	}
	switch {
	case s.Op.PreAggregated():
		return w.applyPreAggregated(to, s)
	case s.Arrived != 0:
		return w.applyHeld(to, s)
	}
	return w.update(b, place, to.State, s)
}

// aliasesMayGrow reports whether aliases may take more memory. Half of the memory is reserved for
// series, because a line without an alias still finds its series.
func (t *Table) aliasesMayGrow() bool { return t.aliases.Used.Load() < t.config.MaxBytes/2 }

func (t *Table) rememberSeries(key *lookup.Key, to lookup.Ref, s *series) {
	before, ok := t.aliases.Set(key, to.Target())
	if !ok || before == to.Target() {
		return
	}
	s.aliases.Add(1)
	if before&lookup.RejectionBit != 0 {
		t.rejections.Add(-1)
	}
}

func (t *Table) rememberRejection(key *lookup.Key, r metric.Reason, epoch uint32) {
	if t.rejections.Load() >= maxRejections || !t.aliasesMayGrow() {
		return
	}
	before, ok := t.aliases.Set(key, lookup.RejectionTarget(r, epoch))
	if ok && before&lookup.RejectionBit == 0 {
		t.rejections.Add(1)
	}
}

// Check checks a sample's value against its kind. It is the first check of a sample.
func Check(s *metric.Sample) metric.Reason { return kind.Check(s) }

// seek finds or creates the series of a sample.
func (w *Writer) seek(s *metric.Sample) (lookup.Ref, metric.Reason) {
	return w.seriesOf(w.decision(s), s)
}

// seriesOf finds or creates the series of a decision.
func (w *Writer) seriesOf(decided *decision, s *metric.Sample) (lookup.Ref, metric.Reason) {
	if decided.rejected != metric.Applied {
		return lookup.Ref{}, decided.rejected
	}
	if to, rejected, found := w.table.filed(&decided.identity, s.Kind); found {
		return to, rejected
	}
	return w.table.create(&decided.identity, s, w.Now)
}

// decision is the identity of a sample's series, or the reason of the sample's rejection, with the
// memory for its strings.
type decision struct {
	identity   index.Identity
	rejected   metric.Reason
	retryEpoch uint32 // the table's, read before the decision

	described metric.Description
	canonical []byte
}

// decision returns the decision about a sample; PrefetchNew may have made it already. The result is
// valid until the next sample.
func (w *Writer) decision(s *metric.Sample) *decision {
	for i := range w.newSeries[:w.prefetched] {
		if f := &w.newSeries[i]; f.sample == s {
			return &f.decision
		}
	}
	w.table.decide(s, &w.decided)
	return &w.decided
}

func (t *Table) decide(s *metric.Sample, d *decision) {
	d.retryEpoch = t.retryEpoch.Load()
	d.identity, d.rejected = t.identify(s, d)
}

// identify computes the identity of a sample's series.
func (t *Table) identify(s *metric.Sample, decided *decision) (index.Identity, metric.Reason) {
	name := metric.Borrow(s.Name)
	if rejected := metric.CheckName(name); rejected != metric.Applied {
		return index.Identity{}, rejected
	}
	d := &decided.described
	d.Object, d.Labels, d.ObjectLifetime, d.Retainable = metric.Object{}, d.Labels[:0], false, false
	if rejected := t.describe(s, d); rejected != metric.Applied {
		return index.Identity{}, rejected
	}
	if rejected := checkDescription(d); rejected != metric.Applied {
		return index.Identity{}, rejected
	}
	decided.canonical = metric.AppendLabels(decided.canonical[:0], d.Labels)
	form := index.Identity{Object: d.Object, Name: name, Labels: metric.Borrow(decided.canonical), Bound: d.ObjectLifetime,
		Lasting: d.Retainable}
	form.Hash(&t.index.Hash)
	return form, metric.Applied
}

// checkDescription rejects labels and objects that cannot be part of an answer. Samples of all
// protocols pass it.
func checkDescription(d *metric.Description) metric.Reason {
	for _, l := range d.Labels {
		if rejected := metric.CheckLabel(l); rejected != metric.Applied {
			return rejected
		}
	}
	return metric.CheckLabel(metric.Label{Key: d.Object.Namespace, Value: d.Object.Name})
}

// identityOf returns the identity of an existing series.
func (t *Table) identityOf(s *series) index.Identity {
	form := index.Identity{Object: s.entry.Object(), Name: s.entry.Family.Key.Name, Labels: s.packed(), Lasting: true}
	form.Hash(&t.index.Hash)
	return form
}

// filed finds a live series, and rejects samples of another kind. The rules of locate apply.
func (t *Table) filed(f *index.Identity, kind metric.Kind) (to lookup.Ref, rejected metric.Reason, there bool) {
	to, s, there := t.locate(f)
	if there && s.entry.Kind != kind {
		return lookup.Ref{}, metric.KindConflict, true
	}
	return to, metric.Applied, there
}

// locate finds a live series of any kind. A number in the slots is reused only after every writer
// was quiescent, so only writers may call locate, or the holder of the shard's lock.
func (t *Table) locate(f *index.Identity) (to lookup.Ref, s *series, there bool) {
	p := t.canon.Probe(f.Sum)
	for {
		held := p.Next()
		if held == 0 {
			return lookup.Ref{}, nil, false
		}
		number := held - lookup.FirstNumber
		b, place := t.blocks.of(number)
		state, s := b.page.cells[place].State.Load(), &b.series[place]
		if state&kind.Live != 0 && f.Matches(s.entry, s.packed()) {
			return lookup.Ref{Number: number, State: state}, s, true
		}
	}
}

// create creates a series, unless another writer was quicker or the limits reject it.
func (t *Table) create(f *index.Identity, s *metric.Sample, now window.Moment) (lookup.Ref, metric.Reason) {
	shard := t.canon.Shard(f.Sum)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	if to, rejected, there := t.filed(f, s.Kind); there {
		return to, rejected
	}
	if !t.admit(f.Sum) || !t.admitNames(f) {
		return lookup.Ref{}, metric.OverLimit
	}
	e, lock := t.index.Enter(f, s.Kind)
	defer lock.Mu.Unlock()
	if e.Kind != s.Kind {
		return lookup.Ref{}, metric.KindConflict
	}
	labels := metric.TrustPackedLabels(f.Labels)
	if rejected := t.admission.Admit(lock.ObjectOf(e), e.Family.Key.Name, labels, now.Tick); rejected != metric.Applied {
		e.TidyLocked()
		return lookup.Ref{}, rejected
	}
	number, ok := t.blocks.take()
	if !ok {
		t.admission.Leave(lock.ObjectOf(e), e.Family.Key.Name, labels)
		e.TidyLocked()
		return lookup.Ref{}, metric.OverLimit
	}
	b, place := t.blocks.of(number)
	t.fill(b, place, newcomer{entry: e, labels: lock.Shared(&t.index.Hash, f.Labels), born: now.Tick,
		created: uint32(now.Wall.Unix()), seen: now.Stamp()})
	b.series[place].bornMillis = uint32(now.At % t.Clock.Tick / time.Millisecond)
	b.page.setTTL(place, s.TTL)
	switch {
	case s.TTL == 0 && f.Bound:
		b.page.setTTL(place, metric.Forever)
	case s.TTL == 0:
		t.beginAsTwins(b, place)
	}
	shard.AddLocked(f.Sum, number+lookup.FirstNumber)
	to := t.publish(b, place, number)
	b.page.expectEnd(place, now)
	e.AddLocked(to)
	t.observer.SeriesCreated(lock.ObjectOf(e), e.Family.Key.Name, e.Kind, b.series[place].labels())
	return to, metric.Applied
}

// admit reports whether MaxSeries and MaxBytes allow one more series. If MaxSeries does not, admit
// makes the sweep evict an idle series.
func (t *Table) admit(sum uint64) bool {
	if t.heldSeries() >= t.config.MaxSeries {
		t.waiting.add(sum)
		return false
	}
	return t.MayGrow()
}

// heldSeries is the number of series that count against MaxSeries: those of shadows, too.
func (t *Table) heldSeries() int {
	held := int(t.live.Load())
	if t.beside != nil {
		series, _ := t.beside()
		held += int(series)
	}
	return held
}

// Held returns what counts against MaxSeries and MaxBytes.
func (t *Table) Held() (series int, bytes int64) { return t.heldSeries(), t.heldBytes() }

// Full reports whether MaxSeries or MaxBytes would reject a new series. An idle series may end for
// it.
func (t *Table) Full() bool {
	return t.heldSeries() >= t.config.MaxSeries || t.heldBytes() >= t.config.MaxBytes
}

// memoryLeft reports whether state without a fixed size may grow under MaxBytes.
func (t *Table) memoryLeft() bool {
	if t.bytesLeft() > 0 {
		return true
	}
	t.outOfMemory.Store(true)
	return false
}

func (t *Table) bytesLeft() int64 { return t.config.MaxBytes - t.heldBytes() }

// heldBytes is the memory that counts against MaxBytes: that of shadows, too.
func (t *Table) heldBytes() int64 {
	used := t.UsedBytes()
	if t.beside != nil {
		_, bytes := t.beside()
		used += bytes
	}
	return used
}

// nameBytes is an upper bound of the memory of a series' strings: shared strings count for each
// series.
func (s *series) nameBytes() int64 {
	e, f := s.entry, &s.entry.Family.Key
	return int64(len(f.Resource) + len(f.Namespace) + len(e.Name) + len(e.UID) + len(f.Name) + int(s.length))
}

type newcomer struct {
	entry   *index.Entry
	labels  string // packed
	born    uint32
	created uint32
	seen    uint32
}

// fill writes a new series into a free place.
func (t *Table) fill(b *block, place uint32, n newcomer) {
	s, c := &b.series[place], &b.page.cells[place]
	s.entry, s.born, s.bornMillis = n.entry, n.born, 0
	s.setLabels(n.labels)
	b.restored[place/64].And(^(uint64(1) << (place % 64)))
	b.page.kinds[place], b.page.created[place] = n.entry.Kind, n.created
	b.page.ttls[place].Store(0)
	s.aliases.Store(0)
	c.Seen.Store(n.seen)
	t.createValue(b, place)
}

// createValue gives a series the value of its kind before the first sample.
func (t *Table) createValue(b *block, place uint32) {
	c := &b.page.cells[place]
	c.History = window.History{}
	c.Value.Store(0)
	kind.Of(b.page.kinds[place]).Create(&t.Env, b.handle(place))
	if e := b.series[place].entry; e.Kind == metric.Timer || e.Kind == metric.Set {
		if share := t.shareOf(e.Family.Key.Resource, e.Family.Key.Namespace, e.Name); share != nil {
			b.handle(place).Share(share)
		}
	}
}

// ordinaryNames is the length of names and labels up to which a series has no part in its namespace's share: as many as a
// namespace may have take little.
const ordinaryNames = 512

// admitNames reports whether the share of a namespace allows the names and labels of one more series.
func (t *Table) admitNames(f *index.Identity) bool {
	n := int64(len(f.Object.Resource) + len(f.Object.Namespace) + len(f.Object.Name) + len(f.Object.UID) + len(f.Name) + len(f.Labels))
	if n <= ordinaryNames {
		return true
	}
	share := t.shareOf(f.Object.Resource, f.Object.Namespace, f.Object.Name)
	if share == nil || n <= fair.More(share.Load(), t.bytesLeft()) {
		return true
	}
	t.outOfMemory.Store(true)
	return false
}

// countNames adds the names and labels of a series to what all take, or subtracts them if the sign is -1.
func (t *Table) countNames(s *series, sign int64) {
	n := s.nameBytes()
	t.nameBytes.Add(sign * n)
	if n <= ordinaryNames {
		return
	}
	if share := t.shareOf(s.entry.Family.Key.Resource, s.entry.Family.Key.Namespace, s.entry.Name); share != nil {
		share.Add(sign * n)
	}
}

// shareOf is the memory of the timers, the sets and the long labels of an object's namespace; nil: it isn't limited.
func (t *Table) shareOf(resource, namespace, name string) *atomic.Int64 {
	if resource == "namespaces" {
		namespace = name
	}
	if !t.config.NamespaceShares || namespace == "" {
		return nil
	}
	share, known := t.shares.Load(namespace)
	if !known {
		share, _ = t.shares.LoadOrStore(strings.Clone(namespace), new(atomic.Int64))
	}
	return share.(*atomic.Int64)
}

// publish makes a filled place live. It sets the marks last. The store clears a mark before it
// reads the series, so a birth that it misses is marked again.
func (t *Table) publish(b *block, place, number uint32) lookup.Ref {
	c := &b.page.cells[place]
	state := nextState(c.State.Load())
	t.live.Add(1)
	t.countNames(&b.series[place], 1)
	c.State.Store(state)
	b.unnamed.Mark(place)
	b.renamed.Store(true)
	return lookup.Ref{Number: number, State: state}
}

// nextState is the state of the next series in a place.
func nextState(state uint32) uint32 { return (state>>1+1)<<1&kind.StateBits | kind.Live }

// Observer receives each new series. The table calls it with locks held: it never waits and never
// calls the table. The strings outlive the call, the object does not.
type Observer interface {
	SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels)
}

type noObserver struct{}

func (noObserver) SeriesCreated(*metric.Object, string, metric.Kind, metric.Labels) {}

// SetObserver sets the observer of new series. Call it before the table is used.
func (t *Table) SetObserver(o Observer) { t.observer = o }

// ReplaySeries reports all live series on objects of a resource to the observer, as if they were
// created now. The restore itself reports no series.
func (t *Table) ReplaySeries(resource string) {
	for i := range t.index.Shards {
		t.observeShard(&t.index.Shards[i], resource)
	}
}

func (t *Table) observeShard(shard *index.Shard, resource string) {
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	seen := 0
	for f := range shard.Each() {
		if f.Key.Resource != resource {
			continue
		}
		for newest := range f.Entries.All() {
			for e := newest; e != nil; e = e.Older {
				t.observeLocked(shard, e)
			}
			seen++
			shard.Yield(seen)
		}
	}
}

// observeLocked reports the live series of an entry. The shard's lock keeps their places from being
// reused.
func (t *Table) observeLocked(shard *index.Shard, e *index.Entry) {
	for _, r := range e.Series {
		if t.isLive(r) {
			b, place := t.blocks.of(r.Number)
			t.observer.SeriesCreated(shard.ObjectOf(e), e.Family.Key.Name, e.Kind, b.series[place].labels())
		}
	}
}
