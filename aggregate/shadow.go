package aggregate

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Shadow is a read-only copy of another origin's table (docs/adr/0049-replicas.md). It replays what
// the origin saves: whole blocks (AppendBlockNames and AppendState) and deltas (AppendDelta). A
// series has the number that it has at its origin.
//
// One goroutine calls Begin, ReplaceBlock, ApplyDelta, Advance, LetRun and End. Readers read
// meanwhile: they take the history lock of a block for one series at a time, and the replay holds it
// while it changes one series. So a reader sees a value before a change or after it. A new series is
// filed in the index after its first value.
type Shadow struct {
	config    Config
	log       *slog.Logger
	admission Admission
	observer  Observer

	// table is replaced at the beginning of an epoch. A reader that began before goes on with the
	// former one, which is empty by then.
	table    atomic.Pointer[Table]
	timeline window.Timeline
	heard    atomic.Pointer[time.Time] // local time of the last Advance

	// The fields below belong to the replaying goroutine.
	held    int                 // places in use
	refused int                 // births beyond MaxSeries
	waiting map[uint32]struct{} // numbers of series that a younger one keeps out of the index
	cursor  int                 // the block that was shrunk last
}

// ErrWindows is the error of an origin with other windows.
var ErrWindows = errors.New("windows of origin and replica differ")

// NewShadow returns an empty shadow. MaxSeries and MaxBytes of the configuration bound its memory.
func NewShadow(c Config, log *slog.Logger) *Shadow {
	s := &Shadow{config: c, log: log, admission: unlimited{}, observer: noObserver{}}
	s.heard.Store(&time.Time{})
	s.table.Store(s.newTable(2*slices.Max(c.Windows), slices.Min(c.Windows)/window.TicksPerWindow))
	return s
}

// newTable returns an empty table that follows a clock of these ticks, which reads at.
func (s *Shadow) newTable(at, tick time.Duration) *Table {
	t := New(s.config, nil, s.log)
	t.Clock = window.NewToldClock(s.config.Windows, at, tick)
	t.aliases = lookup.NewAliases(0)
	t.admission, t.observer = s.admission, s.observer
	return t
}

// SetAdmission sets what counts the series. A shadow enters each series and never asks whether it
// may. Call it before any other method.
func (s *Shadow) SetAdmission(a Admission) {
	s.admission, s.Table().admission = a, a
}

// SetObserver sets the observer of new series. Call it before Begin.
func (s *Shadow) SetObserver(o Observer) {
	s.observer, s.Table().observer = o, o
}

// Table is the table of the current epoch, for readers. Its clock stands at what the origin said
// last.
func (s *Shadow) Table() *Table { return s.table.Load() }

// At is the receiving time that the shadow's clock reads.
func (s *Shadow) At() time.Duration { return s.Table().Clock.Now().At }

// HeardAt is the local time of the last Advance; zero if there was none.
func (s *Shadow) HeardAt() time.Time { return *s.heard.Load() }

// Begin removes all series and starts an epoch of the origin whose clock is given (AppendClock).
func (s *Shadow) Begin(clock []byte) error {
	saved, err := s.readClock(clock)
	if err != nil {
		return err
	}
	s.End()
	t := s.newTable(saved.at, saved.tick())
	t.SetSeed = saved.seed
	t.readsStateOf(saved.windows)
	t.Clock.Tell(saved.moment(0))
	s.table.Store(t)
	s.timeline.Reset()
	return nil
}

func (s *Shadow) readClock(clock []byte) (savedClock, error) {
	saved, err := readClock(clock)
	switch {
	case err != nil:
		return saved, err
	case saved.version == unixStamps:
		return saved, fmt.Errorf("table format %d is too old for a replica", saved.version)
	case !slices.Equal(saved.windows, s.Table().Windows()):
		return saved, fmt.Errorf("%w: %s there, %s here", ErrWindows, windowNames(saved.windows), windowNames(s.Table().Windows()))
	}
	return saved, nil
}

// moment is the moment at which a clock was saved, with its dates corrected.
func (s *savedClock) moment(correction time.Duration) window.Moment {
	return window.Moment{At: s.at, Wall: s.life.Wall.Add(correction), Life: s.life.Life, Epoch: time.Unix(0, s.life.Epoch).Add(correction)}
}

// Advance sets the shadow's clock to the origin's. correction is added to the origin's dates.
func (s *Shadow) Advance(clock []byte, correction time.Duration) error {
	t := s.Table()
	saved, err := s.readClock(clock)
	if err != nil {
		return err
	}
	t.Clock.Tell(saved.moment(correction))
	now := time.Now()
	s.heard.Store(&now)
	s.timeline.Told(t.Clock.Now().At, now)
	s.shrinkSome()
	return nil
}

// LetRun lets the clock go on from a local time, so windows run out. It stands again at the next
// Advance.
func (s *Shadow) LetRun(since time.Time) {
	s.Table().Clock.LetRun(since)
	s.timeline.LetRun(since)
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

// Hold sets whether the origin stands still: nothing has come from it for a while. Advance ends it.
func (s *Shadow) Hold(still bool) { s.timeline.StandStill(still) }

// End removes all series and frees the memory of the current epoch.
func (s *Shadow) End() {
	t := s.Table()
	for i := range t.Blocks() {
		r, _ := s.replayer(i, false)
		r.empty()
	}
	s.held, s.refused, s.waiting, s.cursor = 0, 0, nil, 0
	s.table.Store(s.newTable(2*slices.Max(s.config.Windows), slices.Min(s.config.Windows)/window.TicksPerWindow))
}

// ReplaceBlock makes a block equal to the origin's: names and state are the outputs of
// AppendBlockNames and AppendState. Series that are not in names are removed. After an error, the
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

// Refused is the number of births that MaxSeries kept out since the epoch began.
func (s *Shadow) Refused() int { return s.refused }

// Bytes is the memory of the shadow, estimated for the index.
func (s *Shadow) Bytes() int64 {
	const perSeries = int64(unsafe.Sizeof(index.Entry{})) + int64(unsafe.Sizeof(lookup.Ref{})) + 2*(16+8) // slots of names and identities
	t := s.Table()
	_, logs := t.Logs.Used()
	return int64(t.Blocks()*kind.BlockSeries*placeBytes) + logs + t.BodyBytes.Load() + t.nameBytes.Load() + int64(t.Series())*perSeries
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
	now, pace := t.Clock.Now(), pace{time.Now()}
	for range min(made, made/shrinkTurns+1) {
		s.cursor = (s.cursor + 1) % made
		b := t.blocks.at[s.cursor].Load()
		for place := range uint32(kind.BlockSeries) {
			if b.series[place].entry != nil {
				t.shrink(b, place, now)
			}
			if place%64 == 0 {
				pace.step()
			}
		}
	}
}
