package window

import "time"

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

// mostBack is the largest step back of a told clock that counts as an origin that restarted from
// state of a moment before: the clock stands instead.
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
