package aggregate

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A table is restored before any writer or reader knows it: the clock, then the blocks, from several goroutines, then
// RestoreDone. A block that it cannot read is an error, and stays empty.

// RestoreClock goes on from the clock of an earlier process.
func (t *Table) RestoreClock(blob []byte) error {
	d := decoder{rest: blob}
	version := d.byte()
	if d.err == nil && (version < oldestFormat || version > formatVersion) {
		return fmt.Errorf("table format %d is not known; this version reads %d to %d", version, oldestFormat, formatVersion)
	}
	at, wall := time.Duration(d.uvarint()), time.Unix(0, d.varint())
	seed := d.uint64()
	windows := make([]time.Duration, min(d.uvarint(), maxWindows))
	for i := range windows {
		windows[i] = time.Duration(d.uvarint()) * time.Second
	}
	life := savedLife{wall: wall}
	if version == unixStamps {
		life.begin()
	} else {
		life.life, life.epoch = time.Duration(d.uvarint()), d.varint()
		life.uptime = uptime{d.string(), time.Duration(d.uvarint())}
	}
	if d.err != nil || len(d.rest) > 0 || at < 0 || at > longestUp || life.life < 0 || life.life > longestLife || life.up < 0 {
		return fmt.Errorf("clock: %w", errDamaged)
	}
	if len(windows) == 0 || slices.Min(windows) < minWindow || slices.Max(windows) > maxWindow {
		return fmt.Errorf("clock: %w", errDamaged)
	}
	t.clock.live(life)
	t.setSeed, t.written = seed, newSpans(windows, slices.Min(windows)/ticksPerWindow)
	t.sameWindows = slices.Equal(windows, t.Windows())
	t.clock.resume(at, slices.Min(windows)/ticksPerWindow)
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
	reached := t.blocks.reachLocked(uint32(block))
	t.blocks.mu.Unlock()
	if !reached {
		return fmt.Errorf("block %d: there is no memory for it", block)
	}
	r := restorer{t: t, index: uint32(block), b: t.blocks.at[block].Load(), now: t.clock.now()}
	r.pastReader = pastReader{notes: t.notes, clock: t.clock, today: r.now.tick}
	for _, s := range t.written {
		r.strides = append(r.strides, s.stride)
	}
	r.windows = t.sameWindows
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
	windows bool // the windows are those of then
	took    bool // the last value had a series
	mark    mark // of the last value of a delta
	pastReader
}

func (r *restorer) all(names, state []byte, deltas [][]byte) error {
	for d, next := readNames(names); d.more(); {
		if r.birth(d, next()); d.err != nil {
			return fmt.Errorf("names: %w", d.err)
		}
	}
	for d := (&decoder{rest: state}); d.more(); {
		if r.sizedValue(d, false); d.err != nil {
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
	r.mark = mark{} // as the delta's writer began
	var before identities
	for d := (&decoder{rest: delta}); len(d.rest) > 0 || d.err != nil; {
		switch d.byte() {
		case recordBirth:
			r.birth(d, before.next(d))
		case recordSpelledOut:
			r.birth(d, readSpelledOut(d))
		case recordDeath:
			if place := readPlace(d); d.err == nil {
				r.t.vanish(r.b, place)
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
		default:
			d.fail()
		}
		if d.err != nil {
			return d.err
		}
	}
	return nil
}

// birth makes a series that was read. One that is there already, in the same generation, stays as it is.
func (r *restorer) birth(d *decoder, i identity) {
	place, state, kind, born, object, name := i.place, i.state, i.kind, i.born, i.object, i.name
	labels, ok := metric.UnpackLabels(i.labels)
	if !ok || kind.DefaultStat() == metric.NoStat || name == "" || state&live == 0 || state > stateBits {
		d.fail()
	}
	if d.err != nil {
		return
	}
	form := canonicalForm{object: object, name: name, labels: labels.Packed()}
	c := &r.b.page.cells[place]
	if c.state.Load() == state && form.matches(&r.b.series[place]) {
		return
	}
	r.t.vanish(r.b, place)
	born = r.tick(born)
	// The entry is one of its own until settle.go files the series.
	own := &entry{family: &family{key: familyKey{object.Resource, object.Namespace, name}}, name: object.Name, uid: object.UID, kind: kind}
	r.t.fill(r.b, place, newcomer{entry: own, labels: labels.Packed(), born: born, seen: r.now.stamp()})
	c.state.Store(state)
}
