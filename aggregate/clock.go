package aggregate

import (
	"slices"
	"sync/atomic"
	"time"
)

// clock counts receiving time: it stands still while the process is down, so that a window that spans a
// restart covers as much traffic as any other and a rate neither dips nor jumps (docs/adr/0003).
//
// A tick is a tenth of the shortest window. The clock starts two of the longest windows after zero, so that there is a
// tick before every window (beforeAll), and a stamp of 0 can mean never.
type clock struct {
	tick time.Duration
	// start is the moment of the process at which receiving time was offset, and the lifetime clock lived (lifetime.go).
	// newClock, resume and live write all three, before anybody else reads them.
	start  time.Time
	offset time.Duration
	lived  time.Duration
	// epoch is the date of the lifetime clock's zero, in Unix nanoseconds. The roller moves it when somebody has set the
	// machine's clock.
	epoch atomic.Int64
	// uptime is that of the machine; tests have one of their own.
	uptime func() uptime
	// Of an earlier process that the clock goes on from: the tick in which it does, and what ticks were then.
	resumedAt uint32
	former    formerTicks
}

// formerTicks are the ticks of an earlier process: how long one was, and by how much later receiving time is now.
type formerTicks struct {
	tick  time.Duration // 0: there was none
	shift time.Duration
}

func newClock(windows []time.Duration) *clock {
	tick := slices.Min(windows) / ticksPerWindow
	c := &clock{tick: tick, start: time.Now(), offset: 2 * slices.Max(windows), uptime: machineUptime}
	life := savedLife{wall: wallOf(c.start)}
	life.begin()
	c.lived = life.life
	c.epoch.Store(life.epoch)
	return c
}

// beforeAll is a tick before every window that can be asked for.
const beforeAll = 1

// resume goes on from a receiving time that an earlier process with such ticks had reached.
func (c *clock) resume(at, tick time.Duration) {
	c.former = formerTicks{tick: tick, shift: max(c.offset-at, 0)}
	at = max(at, c.offset)
	c.offset = at - time.Since(c.start)
	c.resumedAt = uint32(at / c.tick)
}

// restored is the tick that one of the earlier process is now. 0 stays never.
func (c *clock) restored(then uint32) uint32 {
	if then == 0 || c.former.tick == 0 || c.former.tick == c.tick && c.former.shift == 0 {
		return then
	}
	return uint32((time.Duration(then)*c.former.tick + c.former.shift) / c.tick)
}

// moment is a point of receiving time together with what clocks said.
type moment struct {
	at   time.Duration // receiving time
	tick uint32        // the tick in progress
	wall time.Time
	life time.Duration // the lifetime clock
	// epoch is the date of the lifetime clock's zero.
	epoch time.Time
}

func (c *clock) now() moment {
	now := time.Now()
	up := now.Sub(c.start)
	at := c.offset + up
	return moment{at: at, tick: uint32(at / c.tick), wall: wallOf(now), life: c.lived + up, epoch: time.Unix(0, c.epoch.Load())}
}

// ticksPerWindow is how finely a window slides: a tick is at most a tenth of it.
const ticksPerWindow = 10

// span is a window as the table keeps it: units of stride ticks each, so that a tenth of a long window does not
// cost more notes than a tenth of a short one.
type span struct {
	window time.Duration
	ticks  uint32
	stride uint32 // ticks per unit
	slots  int    // units kept: those of the window, the one before it, and one to spare
}

func newSpans(windows []time.Duration, tick time.Duration) (spans []span) {
	windows = slices.Clone(windows)
	slices.Sort(windows)
	for _, w := range windows {
		ticks := int(w / tick)
		stride := ticks / ticksPerWindow
		s := span{window: w, ticks: uint32(ticks), stride: uint32(stride)}
		s.slots = (ticks+stride-1)/stride + 2
		spans = append(spans, s)
	}
	return spans
}

// unit is the number of the span's unit that a tick belongs to, from 1 like ticks.
func (s span) unit(tick uint32) uint32 { return tick/s.stride + 1 }

// view is a window as seen from a moment: what is kept by units is inside from the unit first on, what is kept by ticks
// from tick on.
type view struct {
	span  *span
	index int // of the span
	first uint32
	tick  uint32 // the first tick that is wholly in the window
}

func (s *span) view(index int, tick time.Duration, m moment) view {
	size := time.Duration(s.stride) * tick
	// The earliest unit boundary that is not before the window's start.
	edge := int64((m.at - s.window + size - 1) / size)
	begins := uint32((m.at - s.window + tick - 1) / tick)
	return view{span: s, index: index, first: uint32(edge) + 1, tick: begins}
}

// keeps reports whether there are records of the unit of a tick.
func (s *span) keeps(tick, now uint32) bool { return s.unit(tick)+uint32(s.kept()) > s.unit(now) }

// kept is how many units there are records of: a window needs its units and the one in progress.
func (s *span) kept() int { return s.slots - 1 }

// tick is the first tick of a unit.
func (s *span) tick(unit uint32) uint32 { return (unit - 1) * s.stride }

// tickOf is the tick in which an earlier moment of the same process lay.
func (m moment) tickOf(wall time.Time, tick time.Duration) uint32 {
	ago := max(m.wall.Sub(wall), 0)
	return max(uint32((m.at-min(ago, m.at))/tick), beforeAll+1)
}
