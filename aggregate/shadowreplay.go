package aggregate

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// liveReplay is the part of a restorer that replays into a shadow.
//
// A series is in one of three states: loose, before its first value; filed, where readers find it;
// or waiting, if a younger series of the same identity, or of another kind, is filed. The origin
// never has two such series, but it may save the block of the one's death after the block of the
// other's birth. Waiting series follow their origin like any other. They are filed when the younger
// one is gone, so the index depends on the contents of the blocks, not on the order of messages.
type liveReplay struct {
	shadow *Shadow
	whole  bool        // the values replace the values that are there
	named  kind.Bitmap // places that the names of a whole block hold
	fresh  []uint32    // places whose series got a value and is not filed
	news   []uint32    // places whose values may concern the own table
	died   bool        // whether a series was removed
	steps  int         // see restorer.step
}

// ahead is the time by which a delta may be ahead of the clock that the shadow was told last: the
// heartbeats in between may be lost.
const ahead = time.Minute

// replayer returns a restorer for a block of the shadow.
func (s *Shadow) replayer(block int, whole bool) (*restorer, error) {
	t := s.Table()
	if limit := (2*s.config.MaxSeries)/kind.BlockSeries + 1; block > limit {
		return nil, fmt.Errorf("block %d: want 0 to %d, by the limit of series", block, limit)
	}
	r, err := t.restorerOf(block, t.Clock.Now().After(ahead, t.Clock.Tick))
	if err != nil {
		return nil, err
	}
	r.b.copied = true
	r.live = &liveReplay{shadow: s, whole: whole}
	return r, nil
}

// finish ends a replay: it empties the block if there was an error, and files new series.
func (s *Shadow) finish(r *restorer, err error) error {
	err = r.result(err)
	for _, place := range r.live.fresh {
		r.step()
		s.settle(r.t, r.index<<kind.BlockBits|place)
	}
	if s.own != nil {
		s.own.hear(r.t, r.index, r.live.news)
	}
	if r.live.died && len(s.waiting) > 0 {
		for number := range s.waiting {
			s.settle(r.t, number)
		}
	}
	return err
}

// empty removes all series of the block.
func (r *restorer) empty() {
	for place := range uint32(kind.BlockSeries) {
		r.drop(place)
	}
}

// dropUnnamed removes the series that the names of a whole block do not hold.
func (r *restorer) dropUnnamed() {
	for place := range uint32(kind.BlockSeries) {
		if !r.live.named.Has(place) {
			r.drop(place)
		}
	}
}

// admit reports whether the shadow may hold one more series. If not, the place remembers the kind
// only, by which later deltas are decoded.
func (l *liveReplay) admit(t *Table, b *block, place uint32, k metric.Kind) bool {
	s := l.shadow
	if s.held < s.config.MaxSeries && t.MayGrow() {
		s.held++
		return true
	}
	if s.refused++; s.refused == 1 {
		s.log.Warn("a replica has more series than fit here; answers lack those beyond: raise max-series or max-bytes",
			"series", s.held, "max_series", s.config.MaxSeries, "max_bytes", s.config.MaxBytes)
	}
	b.page.kinds[place] = k
	return false
}

// step yields the processor now and then: a flush of another origin may change hundreds of
// thousands of series here, and a receiver that shares the processor must be back before its
// socket's buffer is full.
func (r *restorer) step() {
	if r.live == nil {
		return
	}
	if r.live.steps++; r.live.steps%stepsPerLook == 0 {
		r.live.shadow.pace.step()
	}
}

// stepsPerLook is the number of series replayed between two looks at the clock.
const stepsPerLook = 32

// renewsLocked reports whether the value to be read is as new as the one that the series has. It
// clears the value that the value of a whole block replaces.
func (r *restorer) renewsLocked(place uint32) bool {
	c := &r.b.page.cells[place]
	if !r.live.whole {
		return r.CurrentTick(r.mark.stamp) >= c.History.Stamp
	}
	if r.b.series[place].filed() {
		r.t.clearValueLocked(r.b, place)
	}
	return true
}

// clearValueLocked gives a series the value of a new one.
func (t *Table) clearValueLocked(b *block, place uint32) {
	t.freeValueLocked(b, place)
	t.createValue(b, place)
}

// acceptLocked ends a value. If it is damaged, readers no longer find the series; the caller
// empties the block.
func (r *restorer) acceptLocked(d *blob.Decoder, place uint32) {
	if d.Err != nil {
		c := &r.b.page.cells[place]
		c.State.Store(c.State.Load() &^ kind.Live)
		return
	}
	if r.b.body(place) != nil {
		kind.Of(r.b.page.kinds[place]).Weigh(&r.t.Env, r.b.handle(place))
	}
	own := r.live.shadow.own
	if own != nil && (r.b.pushedTTL(place) != 0 || kind.HasNews(&own.Env, r.b.handle(place), r.b.page.kinds[place])) {
		r.live.news = append(r.live.news, place)
	}
	if !r.b.series[place].filed() {
		r.live.fresh = append(r.live.fresh, place)
	}
}

// drop removes a series.
func (l *liveReplay) drop(t *Table, to lookup.Ref) {
	b, place := t.blocks.of(to.Number)
	s, c := &b.series[place], &b.page.cells[place]
	if s.filed() {
		now := t.Clock.Now()
		why := removedThere
		if t.hasExpired(b, place, now) {
			why = expired
		}
		t.removals.note(s.entry, t.removalOf(b, place, why))
		t.unfile(b, place, to)
	}
	delete(l.shadow.waiting, to.Number)
	b.history.Lock()
	c.State.Store(c.State.Load() &^ kind.Live)
	t.emptyPlaceLocked(b, place)
	b.history.Unlock()
	l.shadow.held--
	l.died = true
}

// unfile removes a series from the index. Readers that found it before no longer read it.
func (t *Table) unfile(b *block, place uint32, to lookup.Ref) {
	s, c := &b.series[place], &b.page.cells[place]
	b.history.Lock()
	c.State.Store(c.State.Load() &^ kind.Live)
	b.history.Unlock()
	sum := t.identityOf(s).Sum
	shard := t.canon.Shard(sum)
	shard.Mu.Lock()
	shard.RemoveLocked(sum, to.Number+lookup.FirstNumber)
	shard.Mu.Unlock()
	t.live.Add(-1)
	t.countNames(s, -1)
	lock := s.entry.Family.Shard
	lock.Mu.Lock()
	defer lock.Mu.Unlock()
	t.admission.Leave(lock.ObjectOf(s.entry), s.entry.Family.Key.Name, s.labels())
	s.entry.RemoveLocked(1, t.isLive)
}

// settle files a series, unless a younger one is in its way: then it waits.
func (s *Shadow) settle(t *Table, number uint32) {
	b, place := t.blocks.of(number)
	sery := &b.series[place]
	delete(s.waiting, number)
	if sery.entry == nil || sery.filed() {
		return
	}
	to := lookup.Ref{Number: number, State: b.page.cells[place].State.Load()}
	for !t.file(to, true) {
		if !s.displace(t, to) {
			s.wait(number)
			return
		}
	}
}

func (s *Shadow) wait(number uint32) {
	if s.waiting == nil {
		s.waiting = map[uint32]struct{}{}
	}
	s.waiting[number] = struct{}{}
}

// displace makes the series wait that are in the way of a younger one. It returns false if one of
// them is younger.
func (s *Shadow) displace(t *Table, to lookup.Ref) bool {
	rivals := t.rivalsOf(to)
	for _, other := range rivals {
		if t.ageOf(other).compare(t.ageOf(to)) < 0 {
			return false
		}
	}
	for _, other := range rivals {
		b, place := t.blocks.of(other.Number)
		series, c := &b.series[place], &b.page.cells[place]
		entry := series.entry
		t.unfile(b, place, other)
		series.entry = looseEntry(entry.Family.Key, entry.Object(), entry.Kind)
		c.State.Store(nextState(other.State))
		s.wait(other.Number)
	}
	return len(rivals) > 0
}

// rivalsOf returns the filed series of the same identity as a loose one, or those of the metric of
// its object if they have another kind.
func (t *Table) rivalsOf(to lookup.Ref) []lookup.Ref {
	b, place := t.blocks.of(to.Number)
	s := &b.series[place]
	form := t.identityOf(s)
	shard := t.canon.Shard(form.Sum)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	filed, lock := t.index.Enter(&form, s.entry.Kind)
	defer lock.Mu.Unlock()
	defer filed.TidyLocked()
	if twin, _, there := t.locate(&form); there && filed.Kind == s.entry.Kind {
		return []lookup.Ref{twin}
	}
	return slices.DeleteFunc(slices.Clone(filed.Series), func(r lookup.Ref) bool { return !t.isLive(r) })
}
