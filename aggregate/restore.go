package aggregate

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A table is restored before writers and readers use it: RestoreClock, then RestoreBlock for each
// block, from several goroutines, then RestoreDone, and Begin. An unreadable block is an error and stays
// empty.

// RestoreClock continues the clock of an earlier process from the output of AppendClock.
func (t *Table) RestoreClock(data []byte) error {
	saved, err := readClock(data)
	if err != nil {
		return err
	}
	t.Clock.ResumeLifetime(saved.life)
	if saved.connected && (t.frames.covered == nil || !t.frames.covered(saved.life.Wall)) {
		t.Clock.CountOutage()
		t.frames.wasConnected = true
	}
	t.SetSeed.Store(saved.seed)
	t.readsStateOf(saved.windows)
	t.Clock.Resume(saved.at, saved.tick(), saved.pauses)
	return nil
}

// readsStateOf prepares the table for state that was saved with these windows.
func (t *Table) readsStateOf(windows []time.Duration) {
	t.written = window.NewSpans(windows, slices.Min(windows)/window.TicksPerWindow)
	t.sameWindows = slices.Equal(windows, t.Windows())
}

// savedClock is the output of AppendClock.
type savedClock struct {
	version byte
	at      time.Duration // receiving time
	life    window.SavedLife
	seed    uint64 // of set members' hashes
	windows []time.Duration
	pauses  []window.Pause
	// connected says that other processes received for the table, which go on while it is down.
	connected bool
}

func (s *savedClock) tick() time.Duration { return slices.Min(s.windows) / window.TicksPerWindow }

func readClock(data []byte) (s savedClock, err error) {
	d := blob.Decoder{Rest: data}
	s.version = d.Byte()
	if d.Err == nil && (s.version < oldestFormat || s.version > fedReplicaFormat) {
		return s, fmt.Errorf("table format %d is not known; this version reads %d to %d", s.version,
			oldestFormat, fedReplicaFormat)
	}
	s.at, s.life.Wall = time.Duration(d.Uvarint()), time.Unix(0, d.Varint())
	s.seed = d.Uint64()
	s.windows = make([]time.Duration, min(d.Uvarint(), maxWindows))
	for i := range s.windows {
		s.windows[i] = time.Duration(d.Uvarint()) * time.Second
	}
	if s.version == unixStamps {
		s.life.Begin()
	} else {
		s.life.Life, s.life.Epoch = time.Duration(d.Uvarint()), d.Varint()
		s.life.Uptime = window.Uptime{Boot: d.String(), Up: time.Duration(d.Uvarint())}
	}
	switch s.version {
	case resumedAlone:
		s.readResumed(&d)
	case replicaSeconds, replicaFormat, fedReplicaFormat:
		s.readPauses(&d)
	}
	if s.version >= fedFormat {
		s.connected = d.Byte() == 1
	}
	if d.Err != nil || len(d.Rest) > 0 || s.at < 0 || s.at > longestUp || s.life.Life < 0 ||
		s.life.Life > window.LongestLife || s.life.Up < 0 {
		return s, fmt.Errorf("clock: %w", blob.ErrDamaged)
	}
	if len(s.windows) == 0 || slices.Min(s.windows) < minWindow || slices.Max(s.windows) > maxWindow {
		return s, fmt.Errorf("clock: %w", blob.ErrDamaged)
	}
	return s, nil
}

// readResumed reads the tick in which the clock had resumed: a pause of unknown length.
func (s *savedClock) readResumed(d *blob.Decoder) {
	if tick := d.Uint32(); tick > 0 && len(s.windows) > 0 {
		s.pauses = []window.Pause{{At: time.Duration(tick) * s.tick()}}
	}
}

// readPauses reads the output of appendPauses.
func (s *savedClock) readPauses(d *blob.Decoder) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		p := window.Pause{At: time.Duration(d.Uvarint()), Down: time.Duration(d.Uvarint())}
		if len(s.pauses) == window.MostPauses || p.At < 0 || p.At > s.at || p.Down < 0 || p.Down > longestUp {
			d.Fail()
		}
		s.pauses = append(s.pauses, p)
	}
	if !slices.IsSortedFunc(s.pauses, func(a, b window.Pause) int { return cmp.Compare(a.At, b.At) }) {
		d.Fail()
	}
}

// longestUp is the largest valid receiving time. Ticks of a tenth of a second fit into 32 bits for
// thirteen years.
const longestUp = 10 * 365 * 24 * time.Hour

// RestoreBlock restores a block from its names and state, saved at one moment, and the deltas since
// then, in order. Each delta is replayed before the next one is asked for. Several goroutines may
// restore different blocks at once.
func (t *Table) RestoreBlock(block int, names, state []byte, deltas iter.Seq[[]byte]) error {
	r, err := t.restorerOf(block, t.Clock.Now())
	if err != nil {
		return err
	}
	if err := r.checkpoint(names, state); err != nil {
		return r.result(err)
	}
	for delta := range deltas {
		if err := r.delta(delta); err != nil {
			return r.result(err)
		}
	}
	return nil
}

// restorer replays the saved state of one block: into a table that nobody reads yet, or into a
// shadow while readers read (shadowreplay.go).
type restorer struct {
	t     *Table
	index uint32
	b     *block
	now   window.Moment
	took  bool // a restored series owns the last value read
	mark  mark // of the last value read
	// ordered is set if stamps of the gauges in runs follow.
	ordered bool
	stamp   uint64 // the last stamp read
	kind.Restorer
	live *liveReplay // nil: nobody reads the table yet
}

func (t *Table) restorerOf(block int, now window.Moment) (*restorer, error) {
	if block < 0 || block >= maxBlocks {
		return nil, fmt.Errorf("block %d: want 0 to %d", block, maxBlocks-1)
	}
	t.blocks.mu.Lock()
	reached := t.blocks.reachLocked(uint32(block))
	t.blocks.mu.Unlock()
	if !reached {
		return nil, fmt.Errorf("block %d: there is no memory for it", block)
	}
	r := &restorer{t: t, index: uint32(block), b: t.blocks.at[block].Load(), now: now}
	r.Restorer = kind.Restorer{Env: &t.Env, SameWindows: t.sameWindows,
		Reader: window.Reader{Logs: t.Logs, Clock: t.Clock, Today: now.Tick}}
	for _, s := range t.written {
		r.Strides = append(r.Strides, s.Stride)
	}
	return r, nil
}

// result empties the block if there was an error, and names the block in it.
func (r *restorer) result(err error) error {
	if err == nil {
		return nil
	}
	for place := range uint32(kind.BlockSeries) {
		r.drop(place)
	}
	return fmt.Errorf("block %d: %w", r.index, err)
}

func (r *restorer) checkpoint(names, state []byte) error {
	for d, next := readNames(names); d.More(); {
		if r.birth(d, next()); d.Err != nil {
			return fmt.Errorf("names: %w", d.Err)
		}
	}
	if r.live != nil {
		r.dropUnnamed()
	}
	for d := (&blob.Decoder{Rest: state}); d.More(); {
		if d.Rest[0] == 0 {
			d.Byte()
			r.frameMarks(d)
		} else {
			r.sizedValue(d, false)
		}
		if d.Err != nil {
			return fmt.Errorf("state: %w", d.Err)
		}
	}
	return nil
}

func (r *restorer) delta(delta []byte) error {
	if err := r.replay(delta); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	return nil
}

func (r *restorer) replay(delta []byte) error {
	r.mark, r.ordered, r.stamp = mark{}, false, 0 // AppendDelta begins with the zero mark too
	var before nameReader
	for d := (&blob.Decoder{Rest: delta}); len(d.Rest) > 0 || d.Err != nil; {
		switch d.Byte() {
		case recordBirth:
			before.undated = false
			r.renamedBirth(d, before.next(d))
		case recordUndated:
			before.undated = true
			r.renamedBirth(d, before.next(d))
		case recordSpelledOut:
			r.renamedBirth(d, readSpelledOut(d))
		case recordDeath:
			if place := readPlace(d); d.Err == nil {
				r.drop(place)
			}
		case recordValue:
			r.sizedValue(d, false)
		case recordAlike:
			r.sizedValue(d, true)
		case recordNumbers:
			r.numbers(d, false)
		case recordNumbersAlike:
			r.numbers(d, true)
		case recordUnitRun:
			r.unitRun(d, false)
		case recordUnitRunAlike:
			r.unitRun(d, true)
		case recordOrdered:
			r.ordered = true
		case recordStamps:
			r.stamps(d)
		case recordFrames:
			r.frameMarks(d)
		default:
			d.Fail()
		}
		if d.Err != nil {
			return d.Err
		}
	}
	return nil
}

// renamedBirth is birth from a delta. The next checkpoint replaces the deltas, so it has to write the names again.
func (r *restorer) renamedBirth(d *blob.Decoder, i birth) {
	r.b.renamed.Store(true)
	r.birth(d, i)
}

// birth restores a series without a value. If the place holds the same series in the same
// generation already, birth at most moves its date back.
func (r *restorer) birth(d *blob.Decoder, i birth) {
	place, state, k, born, object, name := i.place, i.state, i.kind, i.born, i.object, i.name
	labels, ok := metric.UnpackLabels(i.labels)
	if !ok || k.DefaultStat() == metric.NoStat || name == "" || state&kind.Live == 0 || state > kind.StateBits {
		d.Fail()
	}
	if d.Err != nil {
		return
	}
	form := index.Identity{Object: object, Name: name, Labels: labels.Packed()}
	sery := &r.b.series[place]
	if r.live != nil {
		r.live.named.Mark(place)
	}
	born = r.CurrentTick(born)
	created := i.created
	if created == 0 {
		created = dateOf(r.now, born, r.t.Clock.Tick)
		r.b.renamed.Store(true) // the next checkpoint saves it
	}
	if r.stateOf(place) == state && form.Matches(sery.entry, sery.packed()) {
		r.b.history.Lock()
		sery.born = min(sery.born, born) // see block.backdateLocked
		r.b.page.created[place] = min(r.b.page.created[place], created)
		r.b.history.Unlock()
		return
	}
	r.drop(place)
	if r.live != nil && !r.live.admit(r.t, r.b, place, k) {
		return
	}
	entry := looseEntry(form.Key(), object, k)
	r.fill(place, state, newcomer{entry: entry, labels: labels.Packed(), born: born, created: created,
		seen: r.now.Stamp()})
}

// looseEntry returns an entry that is not in the index. A restored series has one until it is filed
// (Table.file).
func looseEntry(key index.Key, object metric.Object, k metric.Kind) *index.Entry {
	return &index.Entry{Family: &index.Family{Key: key}, Name: object.Name, UID: object.UID, Kind: k}
}

// filed reports whether the entry of a series is in the index.
func (s *series) filed() bool { return s.entry != nil && s.entry.Family.Shard != nil }

// stateOf is the state that the series at a place was saved with; 0 if there is none.
func (r *restorer) stateOf(place uint32) uint32 {
	switch {
	case r.b.series[place].entry == nil:
		return 0
	case r.live != nil:
		return r.b.series[place].aliases.Load()
	}
	return r.b.page.cells[place].State.Load()
}

// fill writes a restored series into a free place.
func (r *restorer) fill(place, state uint32, n newcomer) {
	r.b.history.Lock()
	defer r.b.history.Unlock()
	r.t.fill(r.b, place, n)
	c := &r.b.page.cells[place]
	if r.live == nil {
		c.State.Store(state)
		return
	}
	r.b.series[place].aliases.Store(state)
	c.State.Store(nextState(c.State.Load()))
}

// drop removes a restored series.
func (r *restorer) drop(place uint32) {
	if r.b.series[place].entry == nil {
		return
	}
	if r.live == nil {
		r.t.dropRestored(r.b, place)
		return
	}
	r.step()
	r.live.drop(r.t, lookup.Ref{Number: r.index<<kind.BlockBits | place, State: r.b.page.cells[place].State.Load()})
}

// sizedValue reads a length and a value. alike: the value has the mark of the previous one and
// carries none.
func (r *restorer) sizedValue(d *blob.Decoder, alike bool) {
	decoder := &blob.Decoder{Rest: d.Bytes(d.Uvarint())}
	if d.Err != nil {
		return
	}
	if r.value(decoder, alike); decoder.Err != nil || len(decoder.Rest) > 0 && r.took {
		d.Fail()
	}
}

// value reads a value and its history entries. It skips a value without a series: the series' birth
// was rejected, or the series lived only between the parts of a checkpoint.
func (r *restorer) value(d *blob.Decoder, alike bool) {
	place, state := readPlace(d), d.Uint32()
	if !alike {
		r.mark = readMark(d)
	}
	r.step()
	r.b.history.Lock()
	defer r.b.history.Unlock()
	if r.takesLocked(d, place, state); r.took && d.Err == nil {
		kind.Of(r.b.page.kinds[place]).Restore(&r.Restorer, d, r.b.handle(place), r.mark.stamp)
		r.tookLocked(d, place)
	}
}

// takesLocked sets took if a restored series owns the value, and gives that series the value's
// mark.
func (r *restorer) takesLocked(d *blob.Decoder, place, state uint32) {
	if r.took = d.Err == nil && state&kind.Live != 0 && r.stateOf(place) == state; !r.took {
		return
	}
	if r.Ahead(r.mark.stamp) {
		d.Fail()
		return
	}
	if r.live != nil && !r.renewsLocked(place) {
		r.took = false
		return
	}
	c := &r.b.page.cells[place]
	seen, old := r.now.RestoredStamp(r.mark.seen)
	if c.Seen.Store(seen); old {
		r.b.unsaved.Mark(place) // the next flush saves the converted stamp
	}
	r.b.page.ttls[place].Store(r.mark.ttl)
}

// tookLocked ends a value that takesLocked accepted.
func (r *restorer) tookLocked(d *blob.Decoder, place uint32) {
	if r.live != nil {
		r.acceptLocked(d, place)
	}
}

func readMark(d *blob.Decoder) mark { return mark{d.Uint32(), d.Uint32(), d.Uint32()} }
