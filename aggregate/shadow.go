package aggregate

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
)

// Shadow is a read-only copy of another origin's table (docs/adr/0049-replicas.md). It replays what
// the origin saves: whole blocks (AppendBlockNames and AppendBlockState) and deltas (AppendDelta). A
// series has the number that it has at its origin.
//
// One goroutine calls Begin, ReplaceBlock, ApplyDelta, Advance, LetRun, SetLives and End. Readers read
// meanwhile: they take the history lock of a block for one series at a time, and the replay holds
// it while it changes one series. So a reader sees a value before a change or after it. A new
// series is filed in the index after its first value.
type Shadow struct {
	config    Config
	log       *slog.Logger
	admission Admission
	observer  Observer
	own       *Table // adopts news of twins; nil: none

	// table is replaced at the beginning of an epoch. A reader that began before goes on with the
	// former one, which is empty by then.
	table atomic.Pointer[Table]
	heard atomic.Pointer[time.Time] // local time at which the origin said its clock
	// zero is the date of receiving time zero by the origin's own clock, in Unix nanoseconds.
	zero atomic.Int64

	// The fields below belong to the replaying goroutine.
	lives   bool                // see SetLives
	held    int                 // places in use
	refused int                 // births beyond MaxSeries or MaxBytes
	waiting map[uint32]struct{} // numbers of series that a younger one keeps out of the index
	cursor  int                 // the block that was shrunk last
	pace    pace
	clock   []byte // the origin's, as of the receiving time that the shadow's clock was told
}

// ErrWindows is the error of an origin whose windows a shadow cannot read beside those of its
// replica, or that changed during an epoch.
var ErrWindows = errors.New("windows differ")

// NewShadow returns an empty shadow. MaxSeries and MaxBytes of the configuration bound its memory.
func NewShadow(c Config, log *slog.Logger) *Shadow {
	s := &Shadow{config: c, log: log, admission: unlimited{}, observer: noObserver{}}
	s.heard.Store(&time.Time{})
	s.table.Store(s.newTable(c.Windows))
	return s
}

// newTable returns an empty table for an origin with these windows.
func (s *Shadow) newTable(windows []time.Duration) *Table {
	c := s.config
	c.Windows = windows
	t := newTable(c, nil, s.log, window.NewToldClock(windows), noAliases())
	t.sameWindows = true
	t.admission, t.observer = s.admission, s.observer
	return t
}

// noAliases are those of all shadows: without writers, none is ever entered. They take 0.9 MB.
var noAliases = sync.OnceValue(func() *lookup.Aliases { return lookup.NewAliases(0) })

// SetAdmission sets what counts the series. A shadow enters each series and never asks whether it
// may. Call it before any other method.
func (s *Shadow) SetAdmission(a Admission) {
	s.admission, s.Table().admission = a, a
}

// SetObserver sets the observer of new series. Call it before Begin.
func (s *Shadow) SetObserver(o Observer) {
	s.observer, s.Table().observer = o, o
}

// SetOwn sets the table that goes on with the running totals and gauges of clients that move here.
// Call it before Begin.
func (s *Shadow) SetOwn(own *Table) { s.own = own }

// Table is the table of the current epoch, for readers. Its clock stands at what the origin said
// last.
func (s *Shadow) Table() *Table { return s.table.Load() }

// HeardAt is the local time at which the origin said the clock of the last Advance; zero if there
// was none.
func (s *Shadow) HeardAt() time.Time { return *s.heard.Load() }

// Begin removes all series and starts an epoch of the origin whose clock is given (AppendClock).
//
// The shadow keeps the windows of its origin, which may have longer ones than the replica, or lack
// some. The shortest must be equal, because it defines the tick; if not, the error is ErrWindows.
func (s *Shadow) Begin(clock []byte) error {
	saved, err := readOriginClock(clock)
	if err != nil {
		return err
	}
	if here := slices.Min(s.config.Windows); saved.windows[0] != here {
		return fmt.Errorf("%w: the shortest is %s at the origin, %s here", ErrWindows,
			metric.FormatWindow(saved.windows[0]), metric.FormatWindow(here))
	}
	s.empty()
	t := s.newTable(saved.windows)
	s.hearSeed(t, saved.seed)
	s.zero.Store(saved.zero())
	t.Clock.Tell(saved.moment(0), saved.pauses)
	t.Clock.SetLives(s.lives)
	s.table.Store(t)
	s.clock = append(s.clock[:0], clock...)
	return nil
}

// hearSeed follows the seed of the origin's sets.
func (s *Shadow) hearSeed(t *Table, seed uint64) {
	t.SetSeed.Store(seed)
	if s.own != nil {
		s.own.hearSeed(seed)
	}
}

// readOriginClock reads the clock of an origin: one of this format, which has run for a while.
func readOriginClock(clock []byte) (savedClock, error) {
	saved, err := readClock(clock)
	if err != nil {
		return saved, err
	}
	if saved.version == unixStamps {
		return saved, fmt.Errorf("table format %d is too old for a replica", saved.version)
	}
	var faults config.Faults
	Config{Windows: saved.windows}.validateWindows(&faults)
	if len(faults) > 0 || !slices.IsSorted(saved.windows) || saved.at < 2*slices.Max(saved.windows) {
		return saved, fmt.Errorf("clock: %w", blob.ErrDamaged)
	}
	return saved, nil
}

// moment is the moment at which a clock was saved, with its dates corrected.
func (s *savedClock) moment(correction time.Duration) window.Moment {
	epoch := time.Unix(0, s.life.Epoch)
	return window.Moment{At: s.at, Wall: s.life.Wall.Add(correction), Life: s.life.Life, Epoch: epoch.Add(correction)}
}

// zero is the date of receiving time zero, in Unix nanoseconds.
func (s *savedClock) zero() int64 { return s.life.Epoch + int64(s.life.Life-s.at) }

// Advance sets the shadow's clock to the origin's. correction is added to the origin's dates.
func (s *Shadow) Advance(clock []byte, correction time.Duration) error {
	return s.AdvanceOf(clock, correction, time.Now(), true)
}

// AdvanceOf is Advance for a clock that the origin said at a local time in the past. Since then it
// stands still. If the shadow's clock is later, it stays, unless it may go back.
func (s *Shadow) AdvanceOf(clock []byte, correction time.Duration, local time.Time, back bool) error {
	t := s.Table()
	saved, err := readOriginClock(clock)
	if err != nil {
		return err
	}
	if !slices.Equal(saved.windows, t.Windows()) {
		return fmt.Errorf("%w: the origin has %s, before it had %s", ErrWindows,
			windowNames(saved.windows), windowNames(t.Windows()))
	}
	if !back {
		if before, err := readClock(s.clock); err == nil && saved.at < before.at {
			return nil
		}
	}
	s.zero.Store(saved.zero())
	t.Clock.TellOf(saved.moment(correction), saved.pauses, local)
	if t.Clock.Now().At == saved.at {
		s.clock = append(s.clock[:0], clock...)
	}
	s.hearSeed(t, saved.seed)
	s.heard.Store(&local)
	s.shrinkSome()
	return nil
}

// LetRun lets the clock go on from a local time, so windows run out. It stands again at the next
// Advance.
func (s *Shadow) LetRun(since time.Time) {
	s.Table().Clock.LetRun(since)
}

// SetLives sets whether the origin goes on receiving while it is not heard. If so, its rates stand;
// otherwise it counts as receiving nothing meanwhile.
func (s *Shadow) SetLives(lives bool) {
	s.lives = lives
	s.Table().Clock.SetLives(lives)
}

// Expired reports whether the lifetimes of all series have ended.
func (s *Shadow) Expired() bool {
	t := s.Table()
	now := t.Clock.Now()
	for i := range t.Blocks() {
		b := t.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			if b.series[place].entry != nil && !t.hasExpired(b, place, now) {
				return false
			}
		}
	}
	return true
}

// End removes all series and frees the memory of the current epoch.
func (s *Shadow) End() {
	s.empty()
	s.table.Store(s.newTable(s.Table().Windows()))
}

// empty removes all series.
func (s *Shadow) empty() {
	t := s.Table()
	for i := range t.Blocks() {
		r, _ := s.replayer(i, false)
		r.empty()
	}
	s.held, s.refused, s.waiting, s.cursor = 0, 0, nil, 0
}

// ReplaceBlock makes a block equal to the origin's: names and state are the outputs of
// AppendBlockNames and AppendBlockState. Series that are not in names are removed. After an error, the
// block is empty.
func (s *Shadow) ReplaceBlock(block int, names, state []byte) error {
	r, err := s.replayer(block, true)
	if err != nil {
		return err
	}
	return s.finish(r, r.checkpoint(names, state))
}

// ApplyDelta replays a delta of a block (AppendDelta). Deltas are applied in order; applying one
// twice in a row changes nothing. After an error, the block is empty.
func (s *Shadow) ApplyDelta(block int, delta []byte) error {
	r, err := s.replayer(block, false)
	if err != nil {
		return err
	}
	return s.finish(r, r.delta(delta))
}

// Series is the number of series.
func (s *Shadow) Series() int { return s.Table().Series() }

// Bytes is the memory of the shadow, estimated for the index.
func (s *Shadow) Bytes() int64 {
	const slots = 2 * (16 + 8) // of names and identities
	const perSeries = int64(unsafe.Sizeof(index.Entry{})) + int64(unsafe.Sizeof(lookup.Ref{})) + slots
	t := s.Table()
	_, logs := t.Logs.Used()
	places := int64(t.Blocks() * kind.BlockSeries * placeBytes)
	return places + logs + t.BodyBytes.Load() + t.nameBytes.Load() + int64(t.Series())*perSeries
}

// shrinkTurns is the number of calls of Advance over which one visit of all series is spread: a
// minute of heartbeats.
const shrinkTurns = sweepTurns

// shrinkSome frees memory of idle series that windows no longer reach, as the origin's sweep does.
func (s *Shadow) shrinkSome() {
	t := s.Table()
	made := t.Blocks()
	if made == 0 {
		return
	}
	now := t.Clock.Now()
	for range min(made, made/shrinkTurns+1) {
		s.cursor = (s.cursor + 1) % made
		b := t.blocks.at[s.cursor].Load()
		for place := range uint32(kind.BlockSeries) {
			if b.series[place].entry != nil {
				t.shrink(b, place, now)
			}
			if place%64 == 0 {
				s.pace.step()
			}
		}
	}
}

// This file saves a shadow as its origin would, for a replica that cannot ask the origin
// (docs/adr/0053). Another shadow that replays it is equal to this one. The methods must not run
// while the shadow changes: the caller holds a lock around both.

// Blocks is the number of blocks.
func (s *Shadow) Blocks() int { return s.Table().Blocks() }

// AppendClock appends the clock that the origin said, without the correction of its dates.
func (s *Shadow) AppendClock(dst []byte) []byte { return append(dst, s.clock...) }

// AppendBlockNames appends the identities of a block's series.
func (s *Shadow) AppendBlockNames(dst []byte, block int) []byte {
	return s.Table().AppendBlockNames(dst, block)
}

// AppendBlockState appends the values and windows of all series of a block.
func (s *Shadow) AppendBlockState(dst []byte, block int) []byte {
	return s.Table().AppendBlockState(dst, block)
}

// savedState is the state that a place's series is saved with: that at its origin.
func (b *block) savedState(place uint32) uint32 {
	if b.copied {
		return b.series[place].aliases.Load()
	}
	return b.page.cells[place].State.Load()
}
