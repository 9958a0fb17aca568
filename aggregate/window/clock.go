package window

import (
	"slices"
	"sync/atomic"
	"time"
)

// Clock counts receiving time. It stops while the process is down, so a window across a restart
// covers as much traffic as any other (docs/adr/0003).
//
// A tick is a tenth of the shortest window. The clock starts two of the longest windows after zero,
// so there is a tick before every window (beforeAll), and a stamp of 0 can mean never.
type Clock struct {
	Tick time.Duration
	// At start, receiving time was Offset, and the lifetime clock was at lived (lifetime.go).
	// NewClock, Resume, ResumeLifetime and Begin write them, before any other goroutine reads them.
	start  time.Time
	Offset time.Duration
	lived  time.Duration
	// epoch is the date of the lifetime clock's zero, in Unix nanoseconds. The roller adjusts it
	// when the machine's clock is set.
	epoch atomic.Int64
	// Uptime returns the uptime of the machine. Tests replace it.
	Uptime   func() Uptime
	down     time.Duration // the last outage, until Resume makes it a pause
	counted  time.Duration // the last outage, if it is receiving time, which counts tells
	counts   bool
	reach    time.Duration // receiving time that windows may reach back
	pauses   atomic.Pointer[pauses]
	former   formerTicks
	told     atomic.Pointer[toldMoment] // of a told clock, and of one that stands until Begin
	timeline *Timeline                  // of a told clock; nil: the clock is this process's own
}

// formerTicks describes the ticks of an earlier process: their length, and the shift of receiving
// time since.
type formerTicks struct {
	tick  time.Duration // 0: there was no earlier process
	shift time.Duration
}

// NewClock returns a clock that starts now.
func NewClock(windows []time.Duration) *Clock {
	tick := slices.Min(windows) / TicksPerWindow
	reach := 2 * slices.Max(windows)
	c := &Clock{Tick: tick, start: time.Now(), Offset: reach, reach: reach, Uptime: machineUptime}
	c.pauses.Store(new(pauses))
	life := SavedLife{Wall: wallOf(c.start)}
	life.Begin()
	c.lived = life.Life
	c.epoch.Store(life.Epoch)
	return c
}

// beforeAll is a tick before every window.
const beforeAll = 1

// Resume continues from the receiving time of an earlier process, whose ticks had this length, and
// which knew of these pauses. The clock stands until Begin: nothing is received while a table is restored.
func (c *Clock) Resume(at, tick time.Duration, earlier []Pause) {
	c.former = formerTicks{tick: tick, shift: max(c.Offset-at, 0)}
	earlier = slices.Clone(earlier)
	for i := range earlier {
		earlier[i].At += c.former.shift
	}
	c.Offset = max(at+c.counted, c.Offset)
	c.pause(earlier, Pause{c.Offset, c.down})
	m := c.Now()
	m.At, m.Tick = c.Offset, uint32(c.Offset/c.Tick)
	c.told.Store(&toldMoment{Moment: m})
}

// Begin begins receiving time after Resume. The time since the clock was made joins the outage. Call it before
// any other goroutine reads the clock.
func (c *Clock) Begin() {
	if c.told.Load() == nil {
		return // there was no earlier process
	}
	now := time.Now()
	took := now.Sub(c.start)
	c.start, c.lived = now, c.lived+took
	if c.counts {
		c.Offset += took
	} else {
		c.down += took
	}
	all := c.Pauses()
	c.pause(all[:len(all)-1], Pause{c.Offset, c.down})
	c.told.Store(nil)
}

// currentTick converts a tick of the earlier process. 0 remains 0, which means never.
func (c *Clock) currentTick(then uint32) uint32 {
	if then == 0 || c.former.tick == 0 || c.former.tick == c.Tick && c.former.shift == 0 {
		return then
	}
	return uint32((time.Duration(then)*c.former.tick + c.former.shift) / c.Tick)
}

// Moment is a simultaneous reading of all clocks.
type Moment struct {
	At   time.Duration // receiving time
	Tick uint32        // the tick in progress
	Wall time.Time
	Life time.Duration // the lifetime clock
	// Epoch is the date of the lifetime clock's zero.
	Epoch time.Time
}

// Now reads the clocks.
func (c *Clock) Now() Moment {
	if told := c.told.Load(); told != nil {
		return told.now(c.Tick)
	}
	now := time.Now()
	up := now.Sub(c.start)
	at := c.Offset + up
	return Moment{At: at, Tick: uint32(at / c.Tick), Wall: wallOf(now), Life: c.lived + up,
		Epoch: time.Unix(0, c.epoch.Load())}
}

// TicksPerWindow is the resolution of a window: a tick is at most a tenth of it.
const TicksPerWindow = 10

// Span is a window in units of Stride ticks, a tenth of the window each. So long windows need no
// more records than short ones.
type Span struct {
	Window time.Duration
	ticks  uint32
	Stride uint32 // ticks per unit
	Slots  int    // units of the window, plus the one in progress and one to spare
}

// NewSpans returns the spans of some windows, the shortest first.
func NewSpans(windows []time.Duration, tick time.Duration) (spans []Span) {
	windows = slices.Clone(windows)
	slices.Sort(windows)
	for _, w := range windows {
		ticks := int(w / tick)
		stride := ticks / TicksPerWindow
		s := Span{Window: w, ticks: uint32(ticks), Stride: uint32(stride)}
		s.Slots = (ticks+stride-1)/stride + 2
		spans = append(spans, s)
	}
	return spans
}

// Unit returns the unit of a tick. Units count from 1.
func (s Span) Unit(tick uint32) uint32 { return tick/s.Stride + 1 }

// View is a window that ends at one moment. It contains records of units from FirstUnit on, and
// entries of ticks from FirstTick on.
type View struct {
	Span      *Span
	Index     int // of the span
	FirstUnit uint32
	FirstTick uint32 // the first tick that begins in the window
}

// View returns the window that ends at a moment. index is the index of the span.
func (s *Span) View(index int, tick time.Duration, m Moment) View {
	size := time.Duration(s.Stride) * tick
	// The earliest unit boundary that is not before the window's start.
	edge := int64((m.At - s.Window + size - 1) / size)
	begins := uint32((m.At - s.Window + tick - 1) / tick)
	return View{Span: s, Index: index, FirstUnit: uint32(edge) + 1, FirstTick: begins}
}

// Keeps reports whether the records of a tick's unit are still kept.
func (s *Span) Keeps(tick, now uint32) bool { return s.Unit(tick)+uint32(s.Kept()) > s.Unit(now) }

// Kept returns the number of units with records: those of the window, and the one in progress.
func (s *Span) Kept() int { return s.Slots - 1 }

// FirstTick returns the first tick of a unit.
func (s *Span) FirstTick(unit uint32) uint32 { return (unit - 1) * s.Stride }

// AtOf returns the receiving time at an earlier wall clock time. The time while no process ran has
// the receiving time at which the clock resumed.
func (c *Clock) AtOf(m Moment, wall time.Time) time.Duration {
	ago := max(m.Wall.Sub(wall), 0)
	for _, p := range slices.Backward(c.Pauses()) {
		if up := m.At - p.At; ago > up {
			ago = max(ago-p.Down, up)
		}
	}
	return max(m.At-ago, 0)
}

// TickOf returns the tick of an earlier wall clock time in this process.
func (m Moment) TickOf(wall time.Time, tick time.Duration) uint32 {
	ago := max(m.Wall.Sub(wall), 0)
	return max(uint32((m.At-min(ago, m.At))/tick), beforeAll+1)
}

// A told clock reads what it was last told: the moment of another process's clock. It stands
// between two calls of Tell, because nobody knows what that process received since. A shadow has
// such a clock (docs/adr/0049-replicas.md).

// toldMoment is the reading of a told clock.
type toldMoment struct {
	Moment
	runs time.Time // the local time from which on the clock runs; zero: it stands
}

// NewToldClock returns a clock that follows one of a process with these windows.
func NewToldClock(windows []time.Duration) *Clock {
	c := NewClock(windows)
	c.timeline = new(Timeline)
	c.told.Store(&toldMoment{})
	return c
}

// mostBack is the largest step back of a told clock that is taken for a restart from slightly older state:
// the clock stands instead.
const mostBack = time.Minute

// Tell sets the clock to a moment of the clock that it follows, and stops it there. It ignores
// m.Tick. all are the pauses of that clock.
func (c *Clock) Tell(m Moment, all []Pause) { c.TellOf(m, all, time.Now()) }

// TellOf is Tell for a moment that the clock read at a local time in the past.
func (c *Clock) TellOf(m Moment, all []Pause, local time.Time) {
	c.pauses.Store(pausesOf(all, c.Tick))
	if before := c.told.Load(); before.At-m.At <= mostBack {
		m.At = max(m.At, before.At)
	}
	m.Tick = uint32(m.At / c.Tick)
	c.told.Store(&toldMoment{Moment: m})
	c.timeline.Told(m.At, all, local)
}

// LetRun lets a told clock go on from where it stands, as if it had been told at a local time, until
// the next Tell. The time is a result of time.Now.
func (c *Clock) LetRun(since time.Time) {
	at := *c.told.Load()
	at.runs = since
	c.told.Store(&at)
	c.timeline.LetRun(since)
}

// SetLives sets whether the process that a told clock follows goes on receiving while nothing is heard of it.
func (c *Clock) SetLives(lives bool) { c.timeline.SetLives(lives) }

func (m *toldMoment) now(tick time.Duration) Moment {
	if m.runs.IsZero() {
		return m.Moment
	}
	return m.Moment.After(max(time.Since(m.runs), 0), tick)
}

// After returns the moment some time later, by all clocks.
func (m Moment) After(d, tick time.Duration) Moment {
	m.At, m.Life, m.Wall = m.At+d, m.Life+d, m.Wall.Add(d)
	m.Tick = uint32(m.At / tick)
	return m
}
