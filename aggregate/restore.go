package aggregate

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A table is restored before writers and readers use it: RestoreClock, then RestoreBlock for each
// block, from several goroutines, then RestoreDone. An unreadable block is an error and stays
// empty.

// RestoreClock continues the clock of an earlier process from the output of AppendClock.
func (t *Table) RestoreClock(data []byte) error {
	d := blob.Decoder{Rest: data}
	version := d.Byte()
	if d.Err == nil && (version < oldestFormat || version > formatVersion) {
		return fmt.Errorf("table format %d is not known; this version reads %d to %d", version, oldestFormat, formatVersion)
	}
	at, wall := time.Duration(d.Uvarint()), time.Unix(0, d.Varint())
	seed := d.Uint64()
	windows := make([]time.Duration, min(d.Uvarint(), maxWindows))
	for i := range windows {
		windows[i] = time.Duration(d.Uvarint()) * time.Second
	}
	life := window.SavedLife{Wall: wall}
	if version == unixStamps {
		life.Begin()
	} else {
		life.Life, life.Epoch = time.Duration(d.Uvarint()), d.Varint()
		life.Uptime = window.Uptime{Boot: d.String(), Up: time.Duration(d.Uvarint())}
	}
	if d.Err != nil || len(d.Rest) > 0 || at < 0 || at > longestUp || life.Life < 0 || life.Life > window.LongestLife || life.Up < 0 {
		return fmt.Errorf("clock: %w", blob.ErrDamaged)
	}
	if len(windows) == 0 || slices.Min(windows) < minWindow || slices.Max(windows) > maxWindow {
		return fmt.Errorf("clock: %w", blob.ErrDamaged)
	}
	t.Clock.ResumeLifetime(life)
	t.SetSeed, t.written = seed, window.NewSpans(windows, slices.Min(windows)/window.TicksPerWindow)
	t.sameWindows = slices.Equal(windows, t.Windows())
	t.Clock.Resume(at, slices.Min(windows)/window.TicksPerWindow)
	return nil
}

// longestUp is the largest valid receiving time. Ticks of a tenth of a second fit into 32 bits for
// thirteen years.
const longestUp = 10 * 365 * 24 * time.Hour

// RestoreBlock restores a block from its names and state, saved at one moment, and the deltas since
// then, in order. Several goroutines may restore different blocks at once.
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
	r := restorer{t: t, index: uint32(block), b: t.blocks.at[block].Load(), now: t.Clock.Now()}
	r.Restorer = kind.Restorer{Env: &t.Env, SameWindows: t.sameWindows, Reader: window.Reader{Logs: t.Logs, Clock: t.Clock, Today: r.now.Tick}}
	for _, s := range t.written {
		r.Strides = append(r.Strides, s.Stride)
	}
	if err := r.all(names, state, deltas); err != nil {
		for place := range uint32(kind.BlockSeries) {
			t.dropRestored(r.b, place)
		}
		return fmt.Errorf("block %d: %w", block, err)
	}
	return nil
}

// restorer restores one block.
type restorer struct {
	t     *Table
	index uint32
	b     *block
	now   window.Moment
	took  bool // a restored series owns the last value read
	mark  mark // of the last value read
	kind.Restorer
}

func (r *restorer) all(names, state []byte, deltas [][]byte) error {
	for d, next := readNames(names); d.More(); {
		if r.birth(d, next()); d.Err != nil {
			return fmt.Errorf("names: %w", d.Err)
		}
	}
	for d := (&blob.Decoder{Rest: state}); d.More(); {
		if r.sizedValue(d, false); d.Err != nil {
			return fmt.Errorf("state: %w", d.Err)
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
	r.mark = mark{} // AppendDelta begins with the zero mark too
	var before nameReader
	for d := (&blob.Decoder{Rest: delta}); len(d.Rest) > 0 || d.Err != nil; {
		switch d.Byte() {
		case recordBirth:
			r.birth(d, before.next(d))
		case recordSpelledOut:
			r.birth(d, readSpelledOut(d))
		case recordDeath:
			if place := readPlace(d); d.Err == nil {
				r.t.dropRestored(r.b, place)
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
			d.Fail()
		}
		if d.Err != nil {
			return d.Err
		}
	}
	return nil
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
	c := &r.b.page.cells[place]
	if one := &r.b.series[place]; c.State.Load() == state && form.Matches(one.entry, one.packed()) {
		one.born = min(one.born, r.CurrentTick(born)) // see block.backdateLocked
		return
	}
	r.t.dropRestored(r.b, place)
	born = r.CurrentTick(born)
	// The series has an entry and a family of its own until restoredone.go files it in the index.
	own := &index.Entry{Family: &index.Family{Key: index.Key{Resource: object.Resource, Namespace: object.Namespace, Name: name}}, Name: object.Name, UID: object.UID, Kind: k}
	r.t.fill(r.b, place, newcomer{entry: own, labels: labels.Packed(), born: born, seen: r.now.Stamp()})
	c.State.Store(state)
}
